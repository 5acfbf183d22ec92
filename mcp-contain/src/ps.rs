//! `ps`: what runs, whose it is, how it is held and what it uses.

use std::process::ExitCode;

use mcp_launcher_local::inventory::{self, HostState, Inventory, KnownProcess, KnownServer};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::show::table::{Row, Style, render};
use crate::show::text::printable;
pub(crate) use crate::show::watch::Options;
use crate::show::{name, units, unknown, watch};

/// Prints the servers of this user.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    watch::show(options, || {
        let seen = look()?;
        Ok(match options.json {
            true => format!("{:#}\n", as_json(&seen)),
            false => table(&seen, Style::of_output()),
        })
    })
}

/// The servers that there are, or why that cannot be told.
pub(crate) fn look() -> Result<Inventory, Failure> {
    inventory::look()
        .map_err(|error| Failure::wrapper(format_args!("servers cannot be looked for: {error}")))
}

/// Name by which people know a server.
pub(crate) fn name_of(server: &KnownServer) -> String {
    if let Some(given) = &server.name {
        return name::plain(given);
    }
    let first = |process: &&KnownProcess| Some(process.pid) == server.leader;
    let leader = server
        .processes
        .iter()
        .find(first)
        .or(server.processes.first());
    leader.map_or_else(
        || "?".to_owned(),
        |leader| name::of(&leader.command_line(), &leader.name),
    )
}

/// The means that end it when its host dies.
fn held_by(server: &KnownServer) -> &'static str {
    let is_kept = server.processes.iter().all(|process| process.is_kept);
    if is_kept && server.guardian.is_none() && !server.processes.is_empty() {
        return "nothing: kept";
    }
    match (server.guardian.is_some(), server.in_cgroup) {
        (true, true) => "guardian, cgroup",
        (true, false) => "guardian",
        (false, true) => "cgroup",
        (false, false) => "nothing",
    }
}

/// The program that uses it: of a server that this program wraps, who has started that.
fn host_of(server: &KnownServer) -> String {
    let host = &server.host;
    let gone = match host.state {
        HostState::Dead => " (gone)",
        _ => "",
    };
    match (&host.name, &host.parent) {
        (_, Some((pid, parent))) if host.is_wrapper => format!("{parent} {pid}"),
        (Some(name), _) => format!("{name} {}", host.pid),
        (None, _) => format!("{}{gone}", host.pid),
    }
}

fn table(seen: &Inventory, style: Style) -> String {
    let titles = [
        "NAME", "HOST", "ID", ">AGE", ">PROCS", ">MEMORY", ">CPU", "HELD BY",
    ];
    let row = |server: &KnownServer| {
        let age = server.age();
        let share = 100.0 * server.cpu().as_secs_f64() / age.as_secs_f64().max(0.01);
        Row {
            cells: vec![
                name_of(server),
                printable(&host_of(server)),
                server.id[..8].to_owned(),
                units::time(age),
                server.processes.len().to_string(),
                units::size(server.memory()),
                format!("{share:.0}%"),
                held_by(server).to_owned(),
            ],
            is_bad: server.host.state == HostState::Dead,
        }
    };
    let rows: Vec<Row> = seen.servers.iter().map(row).collect();
    let mut text = match rows.is_empty() {
        true => "No server runs that was started by mcp-contain or by a program that uses mcp-lifecycle.\n".to_owned(),
        false => render(&titles, &[0, 1, 7], &rows, style),
    };
    for line in unknown::lines(&seen.unknown) {
        text.push_str(&format!("{line}\n"));
    }
    text
}

fn as_json(seen: &Inventory) -> Value {
    json!({
        "schema": "mcp-contain/ps/1",
        "servers": seen.servers.iter().map(server_as_json).collect::<Vec<_>>(),
        "unknown": unknown::as_json(&seen.unknown),
    })
}

/// One server, the same for every verb.
pub(crate) fn server_as_json(server: &KnownServer) -> Value {
    let host = &server.host;
    let parent = host.parent.as_ref();
    json!({
        "id": server.id,
        "name": name_of(server),
        "host": {
            "pid": host.pid,
            "name": host.name,
            "is_wrapper": host.is_wrapper,
            "parent": parent.map(|(pid, name)| json!({"pid": pid, "name": name})),
            "state": match host.state {
                HostState::Alive => "alive",
                HostState::Dead => "dead",
                _ => "unknown",
            },
        },
        "leader": server.leader,
        "guardian": server.guardian,
        "cgroup": server.in_cgroup,
        "age_seconds": server.age().as_secs_f64(),
        "memory_bytes": server.memory(),
        "cpu_seconds": server.cpu().as_secs_f64(),
        "processes": server.processes.iter().map(process_as_json).collect::<Vec<_>>(),
    })
}

/// One process, the same for every verb.
pub(crate) fn process_as_json(process: &KnownProcess) -> Value {
    json!({
        "pid": process.pid,
        "parent": process.parent,
        "name": process.name,
        "age_seconds": process.age.as_secs_f64(),
        "memory_bytes": process.memory,
        "cpu_seconds": process.cpu.as_secs_f64(),
        "kept": process.is_kept,
    })
}
