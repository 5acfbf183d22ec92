//! `ps`: lists servers with owner, containment and resource usage.

use std::fs;
use std::process::ExitCode;

use mcp_tree::direct::package_of;
use mcp_tree::inventory::{self, HostState, Inventory, KnownProcess, KnownServer};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::options::name_in;
pub(crate) use crate::show::out::Options;
use crate::show::runner::is_runner;
use crate::show::table::render;
use crate::show::text::one_line;
use crate::show::{name, out, units, unknown};

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let seen = look()?;
    match options.json {
        true => out::json(&as_json(&seen)),
        false => out::print(table(&seen)),
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn look() -> Result<Inventory, Failure> {
    inventory::look()
        .map_err(|error| Failure::wrapper(format_args!("servers cannot be looked for: {error}")))
}

pub(crate) fn name_of(server: &KnownServer) -> String {
    // A process group is held by this program itself.
    let words = server.in_group.then(|| server.host_command_line());
    let given = server.name.clone();
    if let Some(given) = given.or_else(|| name_in(&words?)) {
        return name::plain(&given);
    }
    let leader = server.processes.iter();
    let leader = leader.filter(|it| Some(it.pid) == server.leader);
    let named = leader.chain(&server.processes).map(|process| {
        let words = process.command_line();
        let package = words.iter().find_map(|word| package_of(word.as_ref()));
        let name = package.map(|package| name::plain(&package));
        name.or_else(|| (!words.is_empty()).then(|| name::of(&words, &process.name)))
    });
    // A process that is exiting has no command line any more.
    let found = named.flatten().next();
    let first = server.processes.first().map(|it| name::plain(&it.name));
    found.or(first).unwrap_or_else(|| "?".to_owned())
}

/// Returns the mechanism that ends it when its host dies.
fn held_by(server: &KnownServer) -> &'static str {
    let is_kept = server.processes.iter().all(|process| process.is_kept);
    if is_kept && server.guardian.is_none() && !server.processes.is_empty() {
        return "nothing: kept";
    }
    // The host kills the cgroup.
    let has_host = server.host.state != HostState::Dead;
    match (server.guardian.is_some(), server.in_cgroup && has_host) {
        (true, true) => "guardian, cgroup",
        (true, false) => "guardian",
        (false, true) => "cgroup",
        (false, false) if server.in_group && has_host => "process group",
        (false, false) => "nothing",
    }
}

/// Returns the program that uses it; of a wrapped server, the wrapper's parent.
fn host_of(server: &KnownServer) -> String {
    let host = &server.host;
    match (&host.name, &host.parent) {
        (_, Some((pid, parent))) if host.is_wrapper => program(*pid, parent),
        (Some(name), _) => program(host.pid, name),
        (None, _) => format!("gone ({})", host.pid),
    }
}

fn program(pid: u32, name: &str) -> String {
    let words = match is_runner(name) {
        true => fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default(),
        false => Vec::new(),
    };
    let words = String::from_utf8_lossy(&words);
    let words: Vec<String> = words.split_terminator('\0').map(str::to_owned).collect();
    format!("{} {pid}", name::of(&words, name))
}

/// Returns advice on each of these servers that nothing would end.
pub(crate) fn advice<'a>(
    servers: impl IntoIterator<Item = &'a KnownServer>,
) -> impl Iterator<Item = String> {
    let unheld = servers.into_iter().filter(|it| held_by(it) == "nothing");
    unheld.map(|server| {
        let (name, id) = (name_of(server), &server.id[..8]);
        match server.host.state {
            HostState::Dead => format!("{name} was left behind: `mcp-contain reap` ends it."),
            _ if server.host.name.is_none() => format!(
                "{name} may be left behind: its program is gone, but there is no record of it. `mcp-contain stop {id}` ends it."
            ),
            _ => format!(
                "{name} stays when its program ends, for nothing holds it. `mcp-contain stop {id}` ends it now."
            ),
        }
    })
}

fn table(seen: &Inventory) -> String {
    let titles = [
        "NAME", "HOST", "ID", ">AGE", ">PROCS", ">MEMORY", ">CPU", "HELD BY",
    ];
    let row = |server: &KnownServer| {
        let age = server.age();
        let share = 100.0 * server.cpu().as_secs_f64() / age.as_secs_f64().max(0.01);
        vec![
            name_of(server),
            one_line(&host_of(server)),
            server.id[..8].to_owned(),
            units::time(age),
            server.processes.len().to_string(),
            units::size(server.memory()),
            format!("{share:.0}%"),
            held_by(server).to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = seen.servers.iter().map(row).collect();
    let mut text = match rows.is_empty() {
        true => {
            "No server is running that mcp-contain or a program with mcp-lifecycle has started.\n"
                .to_owned()
        }
        false => render(&titles, &rows),
    };
    for line in advice(&seen.servers).chain(unknown::lines(&seen.unknown)) {
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

/// Formats a server, the same for every verb.
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
        "log": server.log,
        "leader": server.leader,
        "guardian": server.guardian,
        "cgroup": server.in_cgroup,
        "group": server.in_group,
        "age_seconds": server.age().as_secs_f64(),
        "memory_bytes": server.memory(),
        "cpu_seconds": server.cpu().as_secs_f64(),
        "processes": server.processes.iter().map(process_as_json).collect::<Vec<_>>(),
    })
}

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
