//! The session of a server is its host's, but not the terminal.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{Pid, getpgid, getsid};

use crate::lab::{Alive, DEADLINE, Guarded, Options, read_to_end};

const FIFO: &str = "MCP_TEST_FIFO";
const LOG: &str = "MCP_TEST_LOG";

/// The group of processes that share a processor as one; `None` where the kernel makes none.
fn autogroup(pid: Pid) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/autogroup")).ok()?;
    text.split_whitespace().next().map(str::to_owned)
}

/// Checks a server under its guardian, with a group of its own.
fn is_in_our_session(server: &Guarded, main: u32) {
    let (this, main) = (Pid::this(), Pid::from_raw(main.cast_signed()));
    let guardian = Pid::from_raw(server.handle.pid().cast_signed());
    assert_eq!(getsid(Some(main)), getsid(None));
    assert_eq!(autogroup(main), autogroup(this));
    assert_eq!(getpgid(Some(main)), Ok(main));
    assert_eq!(getsid(Some(guardian)), Ok(guardian));
}

#[test]
fn the_server_stays_in_the_hosts_session() {
    let mut server = Guarded::start(&["/bin/cat"], &Options::default());
    let main = server.started();
    is_in_our_session(&server, main);
    server.stdin = None;
    assert_eq!(server.gone().0, 0);
}

/// A host on a terminal. Its last server writes down how it is asked to end. It reports when all its
/// processes have executed: a shell's child that has not would lose the request.
#[test]
#[ignore = "a role"]
fn host() {
    let (Ok(fifo), Ok(log)) = (std::env::var(FIFO), std::env::var(LOG)) else {
        return;
    };
    // What runs the tests may have been started to ignore it.
    // SAFETY: nothing else in this process has a handler for it.
    unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) }.expect("signal");
    File::open("/dev/tty").expect("a terminal");
    // An interactive shell with a terminal whose foreground it does not get would wait for ever.
    let mut shell = Guarded::sh("exec sh -ic 'read line; echo $line'", &Options::default());
    shell.started();
    shell.write_stdin("served\n");
    assert_eq!(shell.read_stdout(7), "served\n");
    shell.gone();
    let script = format!(
        "exec 9>'{fifo}'; terminal=none; (exec 3</dev/tty) 2>&- && terminal=open
        trap 'echo int >>{log}' INT; trap 'echo term >>{log}; exit' TERM
        sh -c 'echo $0; exec sleep 3600' $terminal & wait; wait"
    );
    let options = Options {
        grace: DEADLINE,
        ..Options::default()
    };
    let mut server = Guarded::sh(&script, &options);
    let main = server.started();
    assert_eq!(server.read_stdout(5), "none\n");
    is_in_our_session(&server, main);
    println!("\nready");
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn ctrl_c_reaches_the_host_and_no_server_has_its_terminal() {
    let mut alive = Alive::new();
    let directory = tempfile::tempdir().expect("tempdir");
    let log = directory.path().join("log");
    let program = std::env::current_exe().expect("current_exe");
    let host = format!(
        "exec '{}' --exact session::host --ignored --nocapture --test-threads=1",
        program.display()
    );
    let mut terminal = Command::new("script")
        .args(["-qefc", &host, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .env(FIFO, alive.path())
        .env(LOG, &log)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("spawn");
    let mut keys = terminal.stdin.take().expect("piped");
    let mut lines = BufReader::new(terminal.stdout.take().expect("piped")).lines();
    let mut seen = Vec::new();
    while seen.last().map(|line: &String| line.trim_end()) != Some("ready") {
        let line = lines
            .next()
            .unwrap_or_else(|| panic!("not ready: {seen:?}"));
        seen.push(line.expect("text"));
    }
    keys.write_all(b"\x03").expect("write");
    alive.nobody_is_left();
    terminal.wait().expect("wait");
    let mut log = File::open(log).expect("the server was asked");
    assert_eq!(read_to_end(&mut log), "term\n");
}
