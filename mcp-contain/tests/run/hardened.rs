//! `--hardened`: a server that turns against its wrapper and its guardian.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;

use mcp_guardian::hardened;
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::host::{Alive, Server, Streams, wrapped};

/// Attacks the guardian and the wrapper, the parent of that; then stays, deaf, with a daemon that
/// has wiped its environment. A failed attack is a line less.
const HOSTILE: &str = "trap '' TERM
shim=$(sed -n 's/^PPid:.//p' /proc/$PPID/status)
for it in $PPID $shim; do for by in STOP KILL; do kill -$by $it && echo \"$by of $it\" >>log; done; done
for at in $(sed -n 's/.* [0-9]*:[0-9]* [^ ]* \\([^ ]*\\) .* - cgroup.*/\\1/p' /proc/self/mountinfo); do
    (echo 0 >>$at/cgroup.procs) && echo $at >>log
done
echo done >>log
(setsid env -i sh -c 'printf . >&9; exec sleep 1000' &)
printf . >&9; while :; do read never <&8; done";

#[test]
fn without_landlock_no_restricted_server_is_started() {
    for (option, remedy) in [
        ("--hardened", "PID namespace"),
        ("--write=/tmp", "Linux 6.2"),
    ] {
        let words = [option, "sh", "-c", "echo started >&2"];
        let mut command = wrapped(&words);
        // SAFETY: it makes two system calls, and does not allocate.
        unsafe { command.pre_exec(without_landlock) };
        let (status, said) = Server::start(&mut command, Streams::Pipes).ended();
        assert_eq!(
            (status.code(), said.lines().count()),
            (Some(125), 1),
            "{said}"
        );
        assert!(said.contains(remedy), "{said}");
    }
}

/// Has the kernel say that it has no Landlock, by a filter of seccomp(2).
fn without_landlock() -> io::Result<()> {
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let number = u32::try_from(libc::SYS_landlock_create_ruleset).unwrap_or(u32::MAX);
    let missing = libc::SECCOMP_RET_ERRNO | 38;
    let filter = [
        step(0x20, 0, 0),
        step(0x15, 1, number),
        step(0x06, 0, missing),
        step(0x06, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: takes numbers.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    // SAFETY: the kernel reads the program.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program) })?;
    Ok(())
}

#[test]
fn a_hardened_server_harms_neither_wrapper_nor_guardian() {
    if let Some(why) = hardened::refusal(true, false) {
        return println!("NOT TESTED: {why}");
    }
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let mut alive = Alive::new();
        let report = alive.file("report");
        let report = report.to_str().unwrap();
        let script = alive.script(HOSTILE);
        let words = [
            "--hardened",
            "--grace",
            "200ms",
            "--report",
            report,
            "sh",
            "-c",
            &script,
        ];
        let mut server = Server::start(&mut wrapped(&words), Streams::Pipes);
        alive.ready(2);
        assert_eq!(fs::read_to_string(alive.file("log")).unwrap(), "done\n");
        assert!(server.child.try_wait().unwrap().is_none(), "the wrapper");
        server.signal(signal);
        alive.nobody_is_left();
        server.ended();
        let line: Value = {
            let text = fs::read_to_string(report).unwrap();
            serde_json::from_str(text.lines().next().unwrap()).unwrap()
        };
        assert_eq!(line["containment"]["hardened"], true, "{line:#}");
    }
}

#[test]
fn a_server_is_not_hardened_by_a_group() {
    let words = ["--group", "--hardened", "true"];
    let (status, said) = Server::start(&mut wrapped(&words), Streams::Pipes).ended();
    assert!(!status.success(), "{said}");
    assert!(
        said.contains("--hardened") && said.contains("--group"),
        "{said}"
    );
}
