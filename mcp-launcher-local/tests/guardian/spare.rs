//! A guardian that was there before its server.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;

use mcp_launcher_local::guardian::process::protocol::{Request, Stage};
use mcp_launcher_local::guardian::process::{GuardianHandle, Order, SpawnRequest, spawn};
use nix::errno::Errno;

use crate::lab::{Alive, DEADLINE, Guarded, Options, Said, c, play, readable};

/// A guardian that waits, with what this request has for it before it knows its server.
fn spare(request: &SpawnRequest<'_>) -> GuardianHandle {
    let null = File::open("/dev/null").expect("open");
    let spare = spawn(SpawnRequest {
        cgroup_leaf: request.cgroup_leaf,
        cgroup_procs: request.cgroup_procs,
        cgroup_kill: request.cgroup_kill,
        spare: true,
        ..SpawnRequest::nothing(null.as_fd())
    });
    spare.expect("spawn")
}

/// Has a spare guardian do what this request asks of a new one.
fn order(spare: &GuardianHandle, request: &SpawnRequest<'_>) -> io::Result<()> {
    let own = File::open(".").expect("open");
    spare.order(&Order {
        program: request.program,
        argv: request.argv,
        env: request.env,
        cwd: request.cwd,
        directory: own.as_fd(),
        stdin: request.stdin,
        stdout: request.stdout,
        stderr: request.stderr,
        grace: request.grace,
    })
}

fn start(argv: &[&str], options: &Options<'_>) -> Guarded {
    Guarded::start_by(argv, options, |request| {
        let spare = spare(&request);
        order(&spare, &request).expect("an order");
        spare
    })
}

fn exits(guardian: &GuardianHandle) {
    assert!(
        readable(guardian.pidfd(), DEADLINE),
        "the guardian does not exit"
    );
    guardian.try_reap().expect("waitid").expect("exited");
}

#[test]
fn it_starts_what_it_is_told_with_nothing_else() {
    let directory = tempfile::tempdir().expect("tempdir");
    let options = Options {
        cwd: Some(directory.path()),
        env: vec![c("A=1"), c("B=two words"), c("C=")],
        ..Options::default()
    };
    let script =
        "pwd -P; cat /proc/$$/environ; ls /proc/$$/fd | tr '\\n' ' '; echo \"$0 $*\"; cat; exit 7";
    let mut server = start(&["/bin/sh", "-c", script, "name", "x y"], &options);
    server.write_stdin("input");
    server.stdin = None;
    let pid = server.started();
    let said = server.read_stdout_to_end();
    let real = fs::canonicalize(directory.path()).expect("a path");
    let start = format!("{}\nA=1\0B=two words\0C=\0", real.display());
    assert!(said.starts_with(&start), "{said:?}");
    // Its streams, what the shell reads the directory with, and no more.
    assert!(said[start.len()..].starts_with("0 1 2 "), "{said:?}");
    assert!(!said[start.len()..].contains(" 5 "), "{said:?}");
    assert!(said.ends_with("name x y\ninput"), "{said:?}");
    assert!(pid > 1);
    let (status, swept, guardian) = server.gone();
    assert_eq!((status, swept.count, guardian.code()), (7 << 8, 0, Some(7)));
}

#[test]
fn without_a_directory_the_server_starts_where_the_host_is() {
    let mut server = start(&["/bin/sh", "-c", "pwd -P"], &Options::default());
    let own = fs::canonicalize(".").expect("a path");
    assert_eq!(server.read_stdout_to_end(), format!("{}\n", own.display()));
    server.started();
    server.gone();
}

#[test]
fn failures_name_their_stage() {
    let nowhere = Options {
        cwd: Some(Path::new("/does/not/exist")),
        ..Options::default()
    };
    for (program, options, stage) in [
        ("/does/not/exist", Options::default(), Stage::Exec),
        ("/bin/sh", nowhere, Stage::Chdir),
    ] {
        let server = start(&[program], &options);
        let failed = Said::ExecFailed(stage, Errno::ENOENT as i32);
        assert_eq!(server.hear(), failed, "{program}");
        assert_eq!(server.reaped().code(), Some(127));
    }
}

#[test]
fn its_tree_is_ended_like_any_other() {
    let mut alive = Alive::new();
    let script = alive.script("setsid sh -c 'printf . >&9; sleep 1000' & printf . >&9; trap '' TERM; while :; do sleep 1000; done");
    let server = start(&["/bin/sh", "-c", &script], &Options::default());
    server.started();
    alive.ready(2);
    server.ask(Request::Terminate);
    assert!(alive.somebody_is_left());
    let swept = server.kill();
    assert!(swept.count >= 1, "{swept:?}");
    alive.nobody_is_left();
}

#[test]
fn an_order_that_is_too_long_leaves_a_spare() {
    let long = Options {
        env: vec![c(vec![b'x'; 200_000])],
        ..Options::default()
    };
    let mut guardian = None;
    let unstarted = Guarded::start_by(&["/bin/true"], &long, |request| {
        let spare = spare(&request);
        let error = order(&spare, &request).expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::ArgumentListTooLong);
        let fitting = SpawnRequest {
            env: &[],
            ..request
        };
        order(&spare, &fitting).expect("an order");
        guardian = Some(spare.pid());
        spare
    });
    unstarted.started();
    unstarted.gone();
    // What is long but fits.
    let long = Options {
        env: vec![c([b"LONG=".as_slice(), &[b'x'; 100_000]].concat())],
        ..Options::default()
    };
    let mut server = start(&["/bin/sh", "-c", "echo ${#LONG}"], &long);
    server.started();
    assert_eq!(server.read_stdout_to_end(), "100000\n");
    server.gone();
}

#[test]
fn one_that_nobody_needs_ends() {
    let null = fs::File::open("/dev/null").expect("open");
    let request = SpawnRequest::nothing(null.as_fd());
    let told = spare(&request);
    told.kill().expect("told");
    exits(&told);
    let asked = spare(&request);
    asked.send(Request::Terminate).expect("told");
    exits(&asked);
    // An order to one that has ended starts nothing, and says so.
    assert!(order(&asked, &request).is_err());
}

/// A host with a spare guardian, for [`it_ends_with_its_host`].
#[test]
#[ignore = "a role"]
fn host_with_a_spare() {
    let null = fs::File::open("/dev/null").expect("open");
    let spare = spare(&SpawnRequest::nothing(null.as_fd()));
    println!("spare {}", spare.pid());
    std::io::stdout().flush().expect("flush");
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn it_ends_with_its_host() {
    for killed in [true, false] {
        let mut host = play("spare::host_with_a_spare", &[("X", OsStr::new(""))]);
        let mut said = String::new();
        let mut stdout = host.stdout.take().expect("piped");
        let pid = loop {
            let mut byte = [0];
            stdout.read_exact(&mut byte).expect("a word");
            said.push(char::from(byte[0]));
            let line = said
                .strip_suffix('\n')
                .and_then(|said| said.rsplit('\n').next());
            if let Some(pid) = line.and_then(|line| line.rsplit_once("spare ")) {
                break pid.1.parse::<i32>().expect("a number");
            }
        };
        let pidfd = pidfd_open(pid);
        if killed {
            host.kill().expect("kill");
        } else {
            drop(host.stdin.take());
        }
        host.wait().expect("wait");
        assert!(
            readable(pidfd.as_fd(), DEADLINE),
            "the spare outlives its host"
        );
    }
}

/// Of a process that lives: its host does, and waits.
fn pidfd_open(pid: i32) -> OwnedFd {
    // SAFETY: the call takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = i32::try_from(fd).expect("a descriptor");
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: just opened, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
