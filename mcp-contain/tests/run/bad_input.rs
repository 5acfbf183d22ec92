//! State directories that are full, hostile or not there, and wrappers around wrappers.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use crate::host::{Alive, Server, Streams, wrapped};

/// Runs a server that echoes, with this directory for state; returns its code and what was said.
fn echoes(state: &Path) -> (Option<i32>, String) {
    let mut command = wrapped(&["sh", "-c", "read line; [ \"$line\" = hello ] && exit 6"]);
    command.env("MCP_LIFECYCLE_STATE_DIR", state);
    let mut server = Server::start(&mut command, Streams::Pipes);
    server
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"hello\n")
        .unwrap();
    let (status, said) = server.ended();
    (status.code(), said)
}

/// It ran, and one line says that it is not on record.
#[track_caller]
fn is_unrecorded((code, said): (Option<i32>, String)) {
    assert_eq!((code, said.lines().count()), (Some(6), 1), "{said}");
    assert!(said.contains("the server is not recorded"), "{said}");
}

#[test]
fn whatever_its_state_directory_is_the_server_runs() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fs::write(at("file"), "no directory").unwrap();
    symlink("/", at("link")).unwrap();
    symlink(at("loop"), at("loop")).unwrap();
    let directory = |name: &str, mode: u32| {
        let mut make = fs::DirBuilder::new();
        make.mode(0o700).create(at(name)).unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    directory("open", 0o777);
    directory("usual", 0o700);
    for hostile in ["0000000000000000.ledger", "x.new", "y.ledger"] {
        fs::write(at("usual").join(hostile), [0xff; 4096]).unwrap();
    }
    for name in ["usual", "new"] {
        assert_eq!(echoes(&at(name)), (Some(6), String::new()), "{name}");
    }
    for name in ["file", "link", "loop", "open", "missing/below", "/proc"] {
        is_unrecorded(echoes(&at(name)));
    }
    // And what it has written there is gone again, but for how it has ended.
    assert_eq!(fs::read_dir(at("usual")).unwrap().count(), 4);
    let left = fs::read_dir(at("new"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["ended.ring"]);
}

#[test]
fn a_full_disk_costs_no_server() {
    // As root, for it takes a file system of one page.
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can mount a file system of one page");
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4k,mode=700", "none"])
        .arg(root.path())
        .status();
    assert!(mounted.unwrap().success());
    fs::write(root.path().join("full"), [0; 4096]).unwrap();
    let ended = echoes(root.path());
    let unmounted = std::process::Command::new("umount")
        .arg(root.path())
        .status();
    assert!(unmounted.unwrap().success());
    is_unrecorded(ended);
}

#[test]
fn a_wrapper_around_a_wrapper_ends_all_of_it() {
    let mut alive = Alive::new();
    let script = alive.script("trap 'exit 8' TERM; printf . >&9; while :; do read never <&8; done");
    let program = env!("CARGO_BIN_EXE_mcp-contain");
    let words = ["--", program, "run", program, "sh", "-c", &script];
    for signal in [
        nix::sys::signal::Signal::SIGTERM,
        nix::sys::signal::Signal::SIGKILL,
    ] {
        let server = Server::start(&mut wrapped(&words), Streams::Pipes);
        alive.ready(1);
        server.signal(signal);
        let (status, _) = server.ended();
        if signal == nix::sys::signal::Signal::SIGTERM {
            assert_eq!(status.code(), Some(8));
        }
        alive.nobody_is_left();
    }
}
