//! Every misbehaviour of the kit's fixture, through the wrapper, under what each kind of host does to end a server: to the millisecond as they were
//! read in the hosts' sources. Nobody survives, and whoever was alive to be asked has been asked by SIGTERM.
//!
//! A harness of its own, because this program is also the servers, and hosts that are killed.

mod clients;
mod hosts;
mod peers;
mod sandboxes;
mod servers;

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use clients::{Client, End};
use hosts::Host;
use servers::Server;

/// How the wrapper is started, and what its tests' names begin with.
const WAYS: [(&str, &[&str]); 3] = [
    ("", &[]),
    ("relay::", &["--restart"]),
    (GROUP, &["--group"]),
];

/// The level that every Unix has. It holds all rows but those of processes that leave the group.
const GROUP: &str = "group::";

/// The same, for hosts that are real: they speak, so that nothing is answered from a cache that is empty.
const REAL_WAYS: [(&str, &[&str]); 2] = [("", &[]), ("lazy::", &["--lazy", "--restart"])];

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == "mcp-fixture" => mcp_lifecycle_conformance::fixture_main(),
        Some(word) if word == "host" => return be_host(words.collect()),
        Some(word) if word == "peers" => {
            peers::table().expect("each of them is installed");
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let mut arguments = Arguments::from_args();
    // They wait most of the time.
    arguments.test_threads.get_or_insert(12);
    let rows = WAYS
        .iter()
        .flat_map(|way| Host::ALL.iter().map(move |host| (way, host)));
    let trials = rows.flat_map(|((way, options), host)| {
        let trial = move |server: &'static Server| {
            let name = format!("{way}{}::{}", host.name, server.name);
            Trial::test(name, move || host.ends(options, server).map_err(Into::into))
        };
        let held = |server: &&Server| *way != GROUP || !server.leaves_group;
        servers::ALL.iter().filter(held).map(trial)
    });
    let rows = REAL_WAYS
        .iter()
        .flat_map(|way| Client::ALL.iter().map(move |client| (way, client)));
    let rows = rows.flat_map(|(way, client)| End::ALL.map(|end| (way, client, end)));
    let real = rows.flat_map(|((way, options), client, (ending, end))| {
        let spoken_to = |server: &&Server| client.servers().contains(&server.name);
        let trial = move |server: &'static Server| {
            let name = format!("{way}{}::{ending}::{}", client.name, server.name);
            let ends = move || client.ends(options, end, server).map_err(Into::into);
            Trial::test(name, ends)
        };
        servers::ALL.iter().filter(spoken_to).map(trial)
    });
    let without = Trial::test(
        "without_the_wrapper_there_are_survivors",
        without_the_wrapper_there_are_survivors,
    );
    let leave = Trial::test(
        "group::only_what_leaves_the_group_survives",
        only_what_leaves_the_group_survives,
    );
    let sandboxed = sandboxes::trials();
    let all = trials.chain(real).chain([without, leave]).chain(sandboxed);
    libtest_mimic::run(&arguments, all.collect()).exit_code()
}

/// A harness that could not tell would prove nothing.
fn without_the_wrapper_there_are_survivors() -> Result<(), Failed> {
    let limit = Duration::from_secs(1);
    for (host, server) in [
        ("claude-code", "setsid"),
        ("host-killed", "ignore-eof"),
        ("rmcp", "helper"),
    ] {
        let host = Host::ALL.iter().find(|known| known.name == host);
        let server = servers::ALL.iter().find(|known| known.name == server);
        let (host, server) = host.zip(server).ok_or("a row and a column")?;
        match host.ends_through(&["env"], server, limit) {
            Err(why) if why.contains("still alive") => {}
            other => return Err(format!("{}, {}: {other:?}", host.name, server.name).into()),
        }
    }
    Ok(())
}

/// The other side of the matrix: what the level does not hold.
fn only_what_leaves_the_group_survives() -> Result<(), Failed> {
    let limit = Duration::from_secs(1);
    let host = Host::ALL.iter().find(|host| host.name == "codex");
    let host = host.ok_or("a column")?;
    // With a mark, the `reap` of another trial would find it.
    let wrapper = [env!("CARGO_BIN_EXE_mcp-contain"), "--group", "--no-mark"];
    for server in servers::ALL.iter().filter(|server| server.leaves_group) {
        match host.ends_through(&wrapper, server, limit) {
            Err(why) if why.contains("still alive") => {}
            other => return Err(format!("{}: {other:?}", server.name).into()),
        }
    }
    Ok(())
}

/// Starts this command and keeps its streams until it is killed.
fn be_host(command: Vec<OsString>) -> ExitCode {
    let Some((program, args)) = command.split_first() else {
        return ExitCode::FAILURE;
    };
    let server = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut server = server.expect("a server");
    use std::io::Write as _;
    let stdin = server.stdin.as_mut().expect("piped");
    // Who is not there any more needs no words.
    let _ = stdin.write_all(servers::WORDS.as_bytes());
    std::io::copy(server.stdout.as_mut().expect("piped"), &mut std::io::sink()).expect("read");
    let _ = server.wait();
    loop {
        std::thread::park();
    }
}
