//! Hosts that end in any way, and at any instant: nothing of their servers is left.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use libtest_mimic::Trial;

use crate::alive::{Alive, LIMIT, Living, report};
use crate::cases::{contained, trial};
use crate::fixture::MARK;
use crate::system;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("a_host_that_is_killed_ends_the_tree", killed_host),
        trial(
            "a_host_that_is_killed_ends_a_server_whose_input_stays_open",
            open_input,
        ),
        trial(
            "a_wrapper_that_is_killed_ends_the_tree_at_once",
            killed_wrapper,
        ),
        trial("hosts_killed_at_any_instant_leave_nothing", any_instant),
    ]
}

/// A host: starts a server by the wrapper, and waits. Its own input is passed on where it says so.
pub(crate) fn be(options: Vec<String>) {
    report("host");
    let [what, grace, ..] = &options[..] else {
        panic!("{options:?}")
    };
    let mut command = contained(&["--grace", grace], what);
    let input = match options.iter().any(|option| option == "own-input") {
        true => Stdio::inherit(),
        false => Stdio::piped(),
    };
    let mut child = command.stdin(input).stdout(Stdio::null()).spawn().unwrap();
    // Waiting would close it.
    let _input = child.stdin.take();
    let _ = child.wait();
    std::process::exit(98);
}

/// A process that is one.
fn host(alive: &Alive, what: &str, options: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let (name, address) = alive.variable();
    command
        .args([MARK, "host", what])
        .args(options)
        .env(name, address)
        .stdin(Stdio::null());
    command
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The host, and the processes of its server.
fn started(alive: &Alive, processes: usize) -> (Living, Vec<Living>) {
    let mut all: Vec<_> = (0..=processes).map(|_| alive.next()).collect();
    let host = all
        .iter()
        .position(|process| process.name == "host")
        .unwrap();
    (all.remove(host), all)
}

fn killed_host() {
    let alive = Alive::new();
    let host = host(&alive, "tree", &["200ms"]).spawn().unwrap();
    let (here, servers) = started(&alive, 3);
    kill(host);
    here.ends();
    servers.into_iter().for_each(Living::ends);
}

/// Somebody else has the writing end of its input: there is no end of file.
fn open_input() {
    let alive = Alive::new();
    let (input, mut theirs) = std::io::pipe().unwrap();
    let mut command = host(&alive, "echo", &["200ms", "own-input"]);
    let host = command.stdin(input).spawn().unwrap();
    drop(command);
    let (here, servers) = started(&alive, 1);
    kill(host);
    here.ends();
    servers.into_iter().for_each(Living::ends);
    let _ = theirs.write_all(b"nobody reads\n");
}

fn killed_wrapper() {
    let alive = Alive::new();
    let (name, address) = alive.variable();
    // It would wait for a day.
    let mut command = contained(&["--grace", "1day"], "tree");
    command.env(name, address);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut wrapper = command.spawn().unwrap();
    let servers: Vec<_> = (0..3).map(|_| alive.next()).collect();
    let mut output = wrapper.stdout.take().unwrap();
    kill(wrapper);
    servers.into_iter().for_each(Living::ends);
    // Nor does anybody hold its output.
    assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
}

/// How many are killed: 60, or `MCP_WINDOWS_HOSTS`.
fn rounds() -> usize {
    let given = std::env::var("MCP_WINDOWS_HOSTS").ok();
    given.map_or(60, |given| given.parse().unwrap())
}

fn any_instant() {
    let given = std::env::var("MCP_WINDOWS_SEED").ok();
    let chosen = || {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        u64::from(time.unwrap().subsec_micros())
    };
    let seed = given.map_or_else(chosen, |seed| seed.parse().unwrap());
    // From nothing to the last process of a tree, on this machine and in this hour.
    let alive = Alive::new();
    let begun = Instant::now();
    let one = host(&alive, "tree", &["10ms"]).spawn().unwrap();
    let (_, servers) = started(&alive, 3);
    let longest = begun.elapsed();
    kill(one);
    servers.into_iter().for_each(Living::ends);
    println!("MCP_WINDOWS_SEED={seed}, at most {longest:?}");
    let mut random = seed | 1;
    let mut processes = 0;
    let mut waiting = Vec::new();
    for _ in 0..rounds() {
        let alive = Alive::new();
        let host = host(&alive, "tree", &["10ms"]).spawn().unwrap();
        // xorshift
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(longest.mul_f64((random % 1024) as f64 / 1024.0));
        kill(host);
        waiting.push(alive);
    }
    // A wrapper that was on its way may still start its server, and has to end it: whoever reports
    // ends, until nobody has reported for longer than a start takes.
    let quiet = longest * 4 + Duration::from_secs(2);
    let mut heard = Instant::now();
    while heard.elapsed() < quiet {
        for alive in &waiting {
            while let Some(process) = alive.next_within(Duration::from_millis(1)) {
                processes += usize::from(process.name != "host");
                process.ends();
                heard = Instant::now();
            }
        }
    }
    assert!(processes > 0 || rounds() < 20, "nobody was ever started");
    // A host that was killed inside of its own call to start a wrapper has left that suspended: it has run no
    // instruction. Let go on, it sees that there is no host any more, and starts nothing.
    let mut suspended = 0;
    let until = Instant::now() + LIMIT;
    loop {
        let left = system::wrappers();
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < until, "wrappers live: {left:?}");
        // Its first thread may come after it.
        suspended += left.into_iter().map(system::resume).sum::<usize>();
        std::thread::sleep(Duration::from_millis(20));
    }
    for alive in &waiting {
        assert!(
            alive.next_within(Duration::ZERO).is_none(),
            "it has started its server"
        );
    }
    println!(
        "{} hosts, {processes} processes, 0 left; {suspended} wrappers that were never let run",
        rounds()
    );
}
