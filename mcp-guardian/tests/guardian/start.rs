//! Starting, failing to start, and exiting by itself.

use std::fs;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use mcp_guardian::program::protocol::Stage;
use mcp_guardian::program::{image, spawn_from};
use nix::errno::Errno;

use crate::lab::{Guarded, Options, Said, c};

#[test]
fn the_status_is_mirrored() {
    for (script, status, code) in [
        ("exit 0", 0, 0),
        ("exit 7", 7 << 8, 7),
        ("kill -9 $$", 9, 137),
        ("kill -15 $$", 15, 143),
    ] {
        let server = Guarded::sh(script, &Options::default());
        server.started();
        let (main, swept, guardian) = server.gone();
        assert_eq!((main & 0xff7f, swept.count), (status, 0), "{script}");
        assert_eq!(guardian.code(), Some(code), "{script}");
    }
}

#[test]
fn failures_name_their_stage() {
    let directory = tempfile::tempdir().expect("tempdir");
    let plain = directory.path().join("plain");
    fs::write(&plain, "not a program").expect("write");
    let garbage = directory.path().join("garbage");
    fs::write(&garbage, "not a program either").expect("write");
    fs::set_permissions(&garbage, fs::Permissions::from_mode(0o755)).expect("chmod");
    let text = |path: &Path| path.to_str().expect("text").to_owned();

    let default = Options::default;
    let nowhere = Options {
        cwd: Some(Path::new("/does/not/exist")),
        ..default()
    };
    let not_a_directory = Options {
        cwd: Some(&plain),
        ..default()
    };
    for (program, options, stage, errno) in [
        (
            "/does/not/exist".to_owned(),
            default(),
            Stage::Exec,
            Errno::ENOENT,
        ),
        (text(&plain), default(), Stage::Exec, Errno::EACCES),
        (text(&garbage), default(), Stage::Exec, Errno::ENOEXEC),
        ("/bin/sh".to_owned(), nowhere, Stage::Chdir, Errno::ENOENT),
        (
            "/bin/sh".to_owned(),
            not_a_directory,
            Stage::Chdir,
            Errno::ENOTDIR,
        ),
    ] {
        let mut server = Guarded::start(&[&program], &options);
        assert_eq!(
            server.hear(),
            Said::ExecFailed(stage, errno as i32),
            "{program}"
        );
        assert_eq!(server.reaped().code(), Some(127));
        assert_eq!(server.read_stdout_to_end(), "");
    }
}

#[test]
fn a_failed_cgroup_placement_starts_nothing() {
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("open");
    let options = Options {
        cgroup_procs: Some(std::os::fd::AsFd::as_fd(&full)),
        ..Options::default()
    };
    let server = Guarded::sh("exit 0", &options);
    assert_eq!(
        server.hear(),
        Said::ExecFailed(Stage::Cgroup, Errno::ENOSPC as i32)
    );
    assert_eq!(server.reaped().code(), Some(127));
}

#[test]
fn the_server_gets_what_was_asked_for_and_nothing_else() {
    let directory = tempfile::tempdir().expect("tempdir");
    let options = Options {
        cwd: Some(directory.path()),
        env: vec![c("ONLY=this one"), c("EMPTY=")],
        ..Options::default()
    };
    let mut server = Guarded::start(
        &[
            "/bin/sh",
            "-c",
            "pwd -P; echo \"$0 $1\"; exec /usr/bin/env",
            "a name",
            "an argument",
        ],
        &options,
    );
    server.started();
    let said = server.read_stdout_to_end();
    let cwd = directory.path().canonicalize().expect("canonicalize");
    let mut lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[..2],
        [cwd.to_str().expect("text"), "a name an argument"]
    );
    lines.drain(..2);
    // Some shells add these.
    lines.retain(|line| {
        !["PWD=", "OLDPWD=", "SHLVL=", "_="]
            .iter()
            .any(|own| line.starts_with(own))
    });
    lines.sort_unstable();
    assert_eq!(lines, ["EMPTY=", "ONLY=this one"]);
    server.gone();
}

#[test]
fn no_descriptor_leaks_into_the_server() {
    let file = fs::File::open("/dev/null").expect("open");
    // What a careless library in the host does: a descriptor that every child inherits.
    let raw = nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_DUPFD(100)).expect("fcntl");
    // SAFETY: just created, and owned by nothing else.
    let careless = unsafe { OwnedFd::from_raw_fd(raw) };
    assert!(careless.as_raw_fd() >= 100);
    let mut server = Guarded::start(&["/bin/ls", "/proc/self/fd"], &Options::default());
    server.started();
    // The last one is ls's own, of the directory it lists.
    assert_eq!(
        server
            .read_stdout_to_end()
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["0", "1", "2", "3"]
    );
    server.gone();
}

#[test]
fn signals_are_back_to_normal_in_the_server() {
    // This process ignores SIGPIPE, as every Rust program does.
    let mut server = Guarded::start(
        &["/bin/grep", "^Sig[BI]", "/proc/self/status"],
        &Options::default(),
    );
    server.started();
    let zero = "0000000000000000";
    assert_eq!(
        server.read_stdout_to_end(),
        format!("SigBlk:\t{zero}\nSigIgn:\t{zero}\n")
    );
    server.gone();
}

#[test]
fn streams_end_where_they_should() {
    let mut server = Guarded::start(&["/bin/cat"], &Options::default());
    server.started();
    server.write_stdin("hello");
    assert_eq!(server.read_stdout(5), "hello");
    // If the guardian kept the reading end of anything, or the writing end, this would wait for ever.
    server.stdin = None;
    assert_eq!(server.read_stdout_to_end(), "");
    let (status, swept, guardian) = server.gone();
    assert_eq!((status, swept.count, guardian.signal()), (0, 0, None));
}

#[test]
fn a_file_does_where_memory_is_refused() {
    let here = tempfile::tempdir().expect("tempdir");
    let image = image().in_file(&["/does/not/exist".into(), here.path().into()]);
    let image = image.expect("image");
    assert_eq!(
        fs::read_dir(here.path()).expect("read_dir").count(),
        0,
        "it has no name"
    );
    for _ in 0..3 {
        let server = Guarded::start_by(
            &["/bin/sh", "-c", "exit 3"],
            &Options::default(),
            |request| spawn_from(&image, request).expect("spawn"),
        );
        server.started();
        assert_eq!(server.gone().2.code(), Some(3));
    }
}
