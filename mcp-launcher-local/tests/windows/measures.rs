//! What a launch costs, and what is left of it in the host.

use std::io::Write;
use std::os::windows::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use mcp_lifecycle_core::launch::ExitStatus;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;
use windows_sys::Win32::System::Threading::CREATE_NO_WINDOW;

use crate::alive::{Alive, LIMIT};
use crate::cases::{launch, spec, trial};
use crate::fixture::MARK;
use crate::owners::owner;
use crate::system;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("launches_leave_no_handle_in_the_host", handles),
        trial("measure_the_start", start),
        trial("measure_the_end_after_the_owner_s_death", end),
    ]
}

/// How many: 200, or `MCP_WINDOWS_LAUNCHES`.
fn launches() -> usize {
    let given = std::env::var("MCP_WINDOWS_LAUNCHES").ok();
    given.map_or(200, |given| given.parse().unwrap())
}

async fn one() {
    let server = launch(&spec("echo", None)).await;
    drop(server.stdin);
    assert_eq!(server.terminator.exited().await, ExitStatus::Code(0));
    timeout(LIMIT, server.terminator.gone())
        .await
        .unwrap()
        .unwrap();
}

async fn handles() {
    // What is made once: the port, its thread, threads of the system and of the runtime.
    for _ in 0..10 {
        one().await;
    }
    let before = system::handles();
    assert_ne!(before, 0);
    for _ in 0..launches() {
        one().await;
    }
    // Threads that have no work any more may end, and their handles with them.
    let after = system::handles();
    println!(
        "{} launches: {before} handles before, {after} after",
        launches()
    );
    assert!(
        after <= before + 4,
        "{before} handles before, {after} after"
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Spawn to the first answer: ours, and the standard library's in turn. Says and does not judge.
///
/// A server gets a console of its own where its host has none, as here. So the standard library is asked
/// for the same as well, which starts as many processes.
async fn start() {
    const ROUNDS: usize = 20;
    let (mut ours, mut plain, mut with_console) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(started_by_us().await);
        plain.push(started_by_std(0));
        with_console.push(started_by_std(CREATE_NO_WINDOW));
    }
    let (ours, plain, with_console) = (median(ours), median(plain), median(with_console));
    let ratio = |theirs: Duration| ours.as_secs_f64() / theirs.as_secs_f64();
    println!(
        "start to first answer: {ours:?}; std {plain:?}, ratio {:.2}; std with a console {with_console:?}, ratio {:.2}",
        ratio(plain),
        ratio(with_console)
    );
}

async fn started_by_us() -> Duration {
    let begun = Instant::now();
    let mut server = launch(&spec("echo", None)).await;
    server.stdin.write_all(b"x\n").await.unwrap();
    let mut line = String::new();
    BufReader::new(&mut server.stdout)
        .read_line(&mut line)
        .await
        .unwrap();
    let took = begun.elapsed();
    // Not in the time of whoever is next.
    drop(server.stdin);
    server.terminator.gone().await.unwrap();
    took
}

fn started_by_std(flags: u32) -> Duration {
    let begun = Instant::now();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([MARK, "echo"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .creation_flags(flags);
    let mut child = command.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"x\n").unwrap();
    let mut line = String::new();
    let mut output = std::io::BufReader::new(child.stdout.as_mut().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    let took = begun.elapsed();
    drop(child.stdin.take());
    child.wait().unwrap();
    took
}

/// From the kill of an owner to the end of the last of its processes. Says and does not judge.
async fn end() {
    let mut times = Vec::new();
    for _ in 0..10 {
        let alive = Alive::new();
        let mut owner = owner(&alive);
        let mut living = vec![alive.next(), alive.next(), alive.next()];
        let begun = Instant::now();
        owner.kill().unwrap();
        living.drain(..).for_each(|process| process.ends());
        times.push(begun.elapsed());
        owner.wait().unwrap();
        while let Some(process) = alive.next_within(Duration::from_millis(20)) {
            process.ends();
        }
    }
    println!(
        "owner's death to the end of three processes: {:?}",
        median(times)
    );
}
