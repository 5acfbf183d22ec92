//! Lives and ends of single servers behind the wrapper.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;

use libtest_mimic::{Completion, Failed, Trial};
use mcp_lifecycle_conformance::wine;
use windows_sys::Win32::System::Threading::CREATE_NO_WINDOW;

use crate::alive::{Alive, LIMIT};
use crate::fixture::MARK;
use crate::system;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-contain");

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("bytes_go_both_ways_and_end_of_file_ends_the_server", bytes),
        trial("the_exit_code_is_the_server_s_all_of_it", codes),
        trial(
            "a_server_that_minds_no_end_of_file_is_ended_after_the_graces",
            deaf,
        ),
        trial("who_outlives_the_server_s_own_process_is_ended", helper),
        trial("a_console_that_does_not_answer_delays_no_end", hung_console),
        not_on_wine(
            "the console that it makes for a server holds what the server has inherited",
            trial("the_end_of_the_output_is_the_server_s_own", silent),
        ),
        trial("npx_is_npx_cmd_and_its_arguments_arrive", npx),
        trial("the_log_gets_the_standard_error", log),
    ]
}

/// A test with an end.
pub(crate) fn trial(name: &str, test: fn()) -> Trial {
    let run = move || {
        let (done, is_done) = mpsc::channel();
        let tested = thread::spawn(move || {
            test();
            let _ = done.send(());
        });
        match is_done.recv_timeout(10 * LIMIT) {
            Err(mpsc::RecvTimeoutError::Timeout) => Err(Failed::from("it takes too long")),
            // Its panic says why.
            _ => tested
                .join()
                .map_err(|_| Failed::from("it has panicked, above")),
        }
    };
    Trial::test(name, run)
}

/// Ignored where wine does not do what Windows does, which the lane lists and counts (tests/cross/wine-limits).
fn not_on_wine(why: &'static str, trial: Trial) -> Trial {
    match wine::is_here() {
        true => Trial::ignorable_test(trial.name(), move || Ok(Completion::ignored_with(why))),
        false => trial,
    }
}

/// The wrapper in front of a fixture.
pub(crate) fn contained(options: &[&str], what: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    let fixture = std::env::current_exe().unwrap();
    command
        .args(options)
        .arg("--")
        .arg(fixture)
        .args([MARK, what]);
    command
}

/// Started with pipes, and heard of.
fn start(alive: &Alive, options: &[&str], what: &str) -> Child {
    let (name, address) = alive.variable();
    let mut command = contained(options, what);
    command.env(name, address);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits for it; the tests have an end of their own.
fn end(mut child: Child) -> ExitStatus {
    drop(child.stdin.take());
    child.wait().unwrap()
}

fn bytes() {
    let alive = Alive::new();
    let mut child = start(&alive, &[], "echo");
    let living = alive.next();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut input = child.stdin.take().unwrap();
    let mut line = String::new();
    for round in 0..200 {
        writeln!(input, "line {round}").unwrap();
        line.clear();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, format!("line {round}\n"));
    }
    // As much as no pipe holds, both ways at once.
    let long = "x".repeat(1 << 20) + "\n";
    let sent = long.clone();
    let writer = thread::spawn(move || {
        input.write_all(sent.as_bytes()).unwrap();
        input
    });
    line.clear();
    output.read_line(&mut line).unwrap();
    assert_eq!(line.len(), long.len());
    drop(writer.join().unwrap());
    assert_eq!(output.read(&mut [0]).unwrap(), 0);
    living.ends();
    assert_eq!(end(child).code(), Some(0));
}

fn codes() {
    for code in [0_u32, 1, 125, 256, 0xC000_0005] {
        let mut command = contained(&[], "exits");
        let output = command.arg(code.to_string()).output().unwrap();
        assert_eq!(output.status.code(), Some(code.cast_signed()));
    }
}

fn deaf() {
    let alive = Alive::new();
    let child = start(&alive, &["--grace", "100ms"], "tree");
    let living: Vec<_> = (0..3).map(|_| alive.next()).collect();
    assert!(living.iter().all(|process| process.lives()));
    assert_eq!(
        end(child).code(),
        Some(1),
        "what a job leaves that is ended"
    );
    living.into_iter().for_each(|process| process.ends());
}

fn helper() {
    let alive = Alive::new();
    let child = start(&alive, &["--grace", "100ms"], "leaves-a-helper");
    let helper = alive.next();
    assert!(helper.lives());
    assert_eq!(end(child).code(), Some(3));
    helper.ends();
}

fn hung_console() {
    let alive = Alive::new();
    let (name, address) = alive.variable();
    let mut command = contained(&["--grace", "100ms"], "tree");
    command.env(name, address).stdin(Stdio::piped());
    let child = command.creation_flags(CREATE_NO_WINDOW).spawn().unwrap();
    let living: Vec<_> = (0..3).map(|_| alive.next()).collect();
    let console = system::console_of(child.id());
    system::suspend(console);
    let (done, is_done) = mpsc::channel();
    let ended = thread::spawn(move || {
        let _ = done.send(end(child));
    });
    let status = is_done.recv_timeout(LIMIT);
    // Whatever came of it: it leaves with who is in it.
    system::resume(console);
    ended.join().unwrap();
    assert_eq!(status.expect("it waits for its console").code(), Some(1));
    living.into_iter().for_each(|process| process.ends());
}

/// A copy of it in the wrapper would hide its end from the host.
fn silent() {
    let alive = Alive::new();
    let mut child = start(&alive, &["--grace", "100ms"], "silent");
    let living = alive.next();
    let mut output = child.stdout.take().unwrap();
    assert_eq!(output.read(&mut [0]).unwrap(), 0);
    assert!(living.lives());
    assert!(child.try_wait().unwrap().is_none());
    assert_eq!(end(child).code(), Some(1));
    living.ends();
}

/// A script in a directory with a space and a `%`, that passes its arguments on.
fn script(directory: &Path, name: &str) -> std::path::PathBuf {
    let directory = directory.join("with space, 100%");
    std::fs::create_dir_all(&directory).unwrap();
    let script = directory.join(name);
    let program = std::env::current_exe().unwrap();
    let text = format!("@\"{}\" {MARK} args %*\r\n", program.display());
    std::fs::write(&script, text).unwrap();
    script
}

fn npx() {
    let directory = tempfile::tempdir().unwrap();
    let cmd = script(directory.path(), "npx.cmd");
    std::fs::write(cmd.with_extension(""), "#!/bin/sh\nexit 1\n").unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["npx", "-y", "with space", "a&b"]);
    let output = command.env("PATH", cmd.parent().unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    assert_eq!(said, "\"-y\"\n\"with space\"\n\"a&b\"\n");
    assert_eq!(output.status.code(), Some(0));
}

fn log() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("server.log");
    std::fs::write(&log, "before\n").unwrap();
    let mut command = contained(&["--log", log.to_str().unwrap()], "complains");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"");
    assert_eq!(
        std::fs::read_to_string(&log).unwrap(),
        "before\nto the log\n"
    );
}
