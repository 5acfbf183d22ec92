//! `stop`: the termination ladder by hand, with its proof; and `restart`, where a relay starts the
//! successor.

mod containers;
pub(super) mod relay;

use std::process::ExitCode;
use std::time::Duration;

use mcp_tree::inventory::{self, KnownServer};
use serde_json::json;

use super::ps;
use crate::failure::Failure;
use crate::show::text::one_line;
use crate::show::{out, units};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The server's name, one of its pids, or its ID, as `ps` shows them, tried in this order
    server: String,
    /// All servers of this name
    #[arg(long)]
    all: bool,
    /// Time between SIGTERM and SIGKILL
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = crate::options::time)]
    grace: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Ends it. The exit code is 0 with the proof that nothing is left, and 1 without.
pub(crate) fn run(options: &Options, restarts: bool) -> Result<ExitCode, Failure> {
    let servers = ps::look()?.servers;
    let meant = find(&servers, &options.server, options.all)?;
    let relays = meant.iter().map(|it| restarts.then(|| relay::of(it)));
    let relays: Vec<_> = relays.map(Option::transpose).collect::<Result<_, _>>()?;
    let mut is_proven = true;
    let mut said = Vec::new();
    for (server, relay) in meant.into_iter().zip(&relays) {
        let name = ps::name_of(server);
        let before = containers::hold(server);
        relay.as_ref().map_or(Ok(()), relay::restart)?;
        let mut report = match inventory::stop(server, options.grace) {
            Ok(report) => report,
            Err(error) => {
                is_proven = false;
                said.push(json!({"id": server.id, "name": name, "error": error.to_string()}));
                Failure::plain(format_args!("{name} was not ended from here: {error}")).say();
                continue;
            }
        };
        if report.is_gone() {
            report.unknown = before.and_then(containers::Before::containers_left);
        }
        is_proven &= report.is_gone();
        let left: Vec<_> = report
            .survivors
            .iter()
            .map(|it| format!("{} ({})", it.pid, one_line(&it.name)))
            .collect();
        said.push(json!({
            "id": server.id,
            "name": name,
            "asked": report.asked,
            "killed": report.killed,
            "gone": report.is_gone(),
            "survivors": report.survivors.iter().map(ps::process_as_json).collect::<Vec<_>>(),
            "unknown": report.unknown,
            "seconds": report.took.as_secs_f64(),
        }));
        if !options.json {
            let asked = units::count(
                report.asked,
                "process was asked to end",
                "processes were asked to end",
            );
            let end = match report.is_gone() {
                true if restarts => "nothing of it is left: another one is started".to_owned(),
                true => "nothing of it is left".to_owned(),
                false if left.is_empty() => {
                    let why = report.unknown.as_deref().unwrap_or_default();
                    format!(
                        "whether something of it is left is not known: {}",
                        one_line(why)
                    )
                }
                false => format!("still there: {}", left.join(", ")),
            };
            out::line(format_args!(
                "{name}: {asked}, {} had to be killed, {end} ({})",
                report.killed,
                units::time(report.took)
            ));
        }
    }
    if options.json {
        let verb = if restarts { "restart" } else { "stop" };
        out::json(&json!({"schema": format!("mcp-contain/{verb}/1"), "servers": said}));
    }
    Ok(ExitCode::from(u8::from(!is_proven)))
}

pub(super) fn find<'a>(
    servers: &'a [KnownServer],
    wanted: &str,
    all: bool,
) -> Result<Vec<&'a KnownServer>, Failure> {
    let called = servers.iter().map(|server| Called {
        name: ps::name_of(server),
        id: &server.id,
        holders: holders(server),
        pids: server.processes.iter().map(|it| it.pid).collect(),
    });
    let called: Vec<_> = called.collect();
    let Some((by, those)) = meant(&called, wanted) else {
        return Err(Failure::plain(format_args!(
            "no server is called {wanted}, and there is none with this pid, or with an ID that begins with it (at least {SHOWN} digits); see `mcp-contain ps`"
        )));
    };
    let meant: Vec<_> = those.iter().filter_map(|at| servers.get(*at)).collect();
    let number = meant.len();
    if number == 1 || (by == By::Name && all) {
        return Ok(meant);
    }
    let ids: Vec<_> = meant.iter().map(|server| &*server.id).collect();
    let ids = ids.join(", ");
    let (what, how) = match by {
        By::Name => ("are called", "name one by its ID, or give --all"),
        By::Pid => ("have process", "name one by its ID"),
        By::Id => ("have an ID that begins with", "give more of it"),
    };
    let why = format_args!("{number} servers {what} {wanted}: {how} ({ids})");
    Err(Failure::plain(why))
}

/// Returns the processes that hold a server and no other one, also the one that its host has started.
fn holders(server: &KnownServer) -> [Option<u32>; 3] {
    let wrapper = Some(server.host.pid).filter(|_| server.host.is_wrapper);
    [wrapper, server.guardian, relay::pid(server)]
}

/// Minimum number of digits of an ID, as `ps` shows.
const SHOWN: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Called<'a> {
    name: String,
    id: &'a str,
    holders: [Option<u32>; 3],
    pids: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Name,
    Pid,
    Id,
}

/// Returns the matching servers, by the whole name, or a pid, or the beginning of an ID.
fn meant(servers: &[Called<'_>], word: &str) -> Option<(By, Vec<usize>)> {
    let those = |is_meant: &dyn Fn(&Called<'_>) -> bool| -> Vec<usize> {
        let all = servers.iter().enumerate();
        all.filter(|(_, it)| is_meant(it))
            .map(|(at, _)| at)
            .collect()
    };
    let pid = word.parse::<u32>().ok();
    let is_id = word.len() >= SHOWN;
    [
        (By::Name, those(&|it| it.name == word)),
        // The wrapper of a server can be a process of another one.
        (
            By::Pid,
            those(&|it| pid.is_some() && it.holders.contains(&pid)),
        ),
        (
            By::Pid,
            those(&|it| pid.is_some_and(|pid| it.pids.contains(&pid))),
        ),
        (By::Id, those(&|it| is_id && it.id.starts_with(word))),
    ]
    .into_iter()
    .find(|(_, those)| !those.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "00004321aaaaaaaa";
    const SECOND: &str = "00004321bbbbbbbb";

    fn server<'a>(name: &str, id: &'a str, pids: &[u32]) -> Called<'a> {
        Called {
            name: name.to_owned(),
            id,
            holders: [None; 3],
            pids: pids.to_owned(),
        }
    }

    #[test]
    fn a_name_is_before_a_pid_and_that_before_an_id() {
        let all = [
            server("4321", SECOND, &[7, 8]),
            server("00004321", FIRST, &[4321, 9]),
            server("twice", "1111111100000000", &[4321]),
            server("twice", "2222222200000000", &[]),
        ];
        for (word, expected) in [
            ("4321", Some((By::Name, vec![0]))),
            ("00004321", Some((By::Name, vec![1]))),
            ("twice", Some((By::Name, vec![2, 3]))),
            ("8", Some((By::Pid, vec![0]))),
            ("00004321aa", Some((By::Id, vec![1]))),
            (SECOND, Some((By::Id, vec![0]))),
            ("11111111", Some((By::Id, vec![2]))),
            ("1111111", None),
            ("", None),
            ("twic", None),
        ] {
            assert_eq!(meant(&all, word), expected, "{word}");
        }
        // Without the name, the same digits are a pid, and then an ID, of whomever.
        assert_eq!(meant(&all[1..], "4321"), Some((By::Pid, vec![0, 1])));
        let inner = Called {
            holders: [Some(8), None, None],
            ..server("inner", "3333333300000000", &[9])
        };
        let nested = [all[0].clone(), inner];
        assert_eq!(meant(&nested, "8"), Some((By::Pid, vec![1])));
        let unnamed = [server("a", FIRST, &[]), server("b", SECOND, &[])];
        assert_eq!(meant(&unnamed, "00004321"), Some((By::Id, vec![0, 1])));
    }
}
