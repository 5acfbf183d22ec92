//! `stats`: lists how servers ended.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_guardian::program::ending::OUT_OF_MEMORY;
use mcp_guardian::program::text::Line;
use mcp_tree::history::{self, History, PastServer};
use serde_json::{Value, json};

use super::ps;
use crate::failure::Failure;
pub(crate) use crate::show::out::Options;
use crate::show::table::render;
use crate::show::text::one_line;
use crate::show::{out, units, unknown};

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let seen = history::look();
    let running = ps::look()?.servers.into_iter().map(|server| server.id);
    let running: BTreeSet<String> = running.collect();
    let servers = seen.servers.iter().map(|it| (it, how(it, &running)));
    let servers: Vec<_> = servers.collect();
    match options.json {
        true => out::json(&as_json(&seen, &servers)),
        false => out::print(as_text(&seen, &servers, SystemTime::now())),
    }
    Ok(ExitCode::SUCCESS)
}

fn how(server: &PastServer, running: &BTreeSet<String>) -> &'static str {
    match &server.end {
        Some(end) => end.how(),
        None if running.contains(&server.id) => "running",
        // Its guardian was killed, or the machine was switched off.
        None => "unknown",
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    itself: usize,
    asked: usize,
    killed: usize,
    /// Without a proof, or unknown.
    unsure: usize,
    swept: u64,
    last: Option<SystemTime>,
}

impl Sum {
    fn add(&mut self, server: &PastServer, how: &str) {
        match how {
            "running" => return,
            "itself" => self.itself += 1,
            "asked" => self.asked += 1,
            "killed" => self.killed += 1,
            _ => self.unsure += 1,
        }
        let end = server.end.as_ref();
        self.swept += end.map_or(0, |end| u64::from(end.swept));
        let at = end.map(|end| UNIX_EPOCH + Duration::from_millis(end.at));
        self.last = self.last.max(at);
    }

    fn ended(&self) -> usize {
        self.itself + self.asked + self.killed + self.unsure
    }
}

fn sums(servers: &[(&PastServer, &str)]) -> (Sum, BTreeMap<String, Sum>) {
    let mut all = Sum::default();
    let mut names = BTreeMap::<String, Sum>::new();
    for (server, how) in servers {
        all.add(server, how);
        names
            .entry(one_line(&server.name))
            .or_default()
            .add(server, how);
    }
    names.retain(|_, sum| sum.ended() > 0);
    (all, names)
}

fn as_text(seen: &History, servers: &[(&PastServer, &str)], now: SystemTime) -> String {
    let (all, names) = sums(servers);
    let since = |then: SystemTime| units::time(now.duration_since(then).unwrap_or(Duration::ZERO));
    let mut text = match seen.servers.first() {
        Some(first) if all.ended() > 0 => format!(
            "{} of {} did not end by themselves in the last {}, and {} had to be ended with them.\n\n",
            all.ended() - all.itself,
            units::count(all.ended(), "server", "servers"),
            since(first.started),
            units::count(
                usize::try_from(all.swept).unwrap_or(usize::MAX),
                "process",
                "processes"
            ),
        ),
        _ => "No server has ended that was started by mcp-contain.\n".to_owned(),
    };
    let row = |(name, sum): (&String, &Sum)| {
        vec![
            name.clone(),
            sum.ended().to_string(),
            sum.itself.to_string(),
            sum.asked.to_string(),
            sum.killed.to_string(),
            sum.unsure.to_string(),
            sum.swept.to_string(),
            sum.last.map_or_else(|| "-".to_owned(), since),
        ]
    };
    let rows: Vec<Vec<String>> = names.iter().map(row).collect();
    if !rows.is_empty() {
        let titles = [
            "NAME", ">ENDED", ">ITSELF", ">ASKED", ">KILLED", ">UNKNOWN", ">SWEPT", ">LAST",
        ];
        text.push_str(&render(&titles, &rows));
    }
    let ends = servers.iter().filter_map(|(it, _)| it.end.as_ref());
    let hungry = ends.filter(|end| end.has(OUT_OF_MEMORY)).count();
    if hungry > 0 {
        let servers = units::count(hungry, "server", "servers");
        text.push_str(&format!(
            "{servers} killed at the limit of memory (`--memory`).\n"
        ));
    }
    for line in unknown::lines(&seen.unknown) {
        text.push_str(&format!("{line}\n"));
    }
    text
}

fn as_json(seen: &History, servers: &[(&PastServer, &str)]) -> Value {
    let (all, _) = sums(servers);
    let server = |(server, how): &(&PastServer, &str)| {
        let started = server.started.duration_since(UNIX_EPOCH);
        let mut line = Line::new();
        line.then("{\"id\":").string(server.id.as_bytes());
        line.key("name").string(one_line(&server.name).as_bytes());
        line.key("started")
            .milliseconds(started.map_or(0, |it| it.as_millis() as u64));
        match &server.end {
            Some(end) => end.describe(&mut line),
            None => drop(line.key("how").string(how.as_bytes())),
        }
        // The form that a report has.
        serde_json::from_slice(line.then("}").bytes()).unwrap_or(Value::Null)
    };
    json!({
        "schema": "mcp-contain/stats/1",
        "ended": all.ended(),
        "itself": all.itself,
        "asked": all.asked,
        "killed": all.killed,
        "swept": all.swept,
        "servers": servers.iter().map(server).collect::<Vec<_>>(),
        "unknown": unknown::as_json(&seen.unknown),
    })
}
