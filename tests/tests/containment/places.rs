//! Ledgers are found by every process of the same user, whatever is in its
//! environment and whoever cleans up. In a mount namespace, where the
//! directories that all users share are this test's alone.

use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use nix::unistd::geteuid;

use crate::orphans::{end, launched, reap};
use crate::stage::{self, LIMIT, NOBODY, OBSERVER, Stage, perform_within, plays};

/// Runs a role as root and as a user who has nothing else on this machine, where
/// they can have such directories.
#[track_caller]
fn perform(name: &str) {
    // This program stays where it is.
    const MOUNT: &str = "own=$(dirname \"$0\"); mount --bind \"$own\" /mnt || exit 8; for d in /run /tmp /var/tmp /dev/shm; do \
                         mount -t tmpfs -o mode=1777,size=1m none $d || exit 9; done; \
                         mkdir -p \"$own\"; mount --bind /mnt \"$own\" || exit 10; exec";
    let as_root = format!("{MOUNT} \"$0\" \"$@\"");
    // Root of a namespace of its own, to mount; and nobody again.
    let user = match geteuid().is_root() {
        true => stage::nobody_else(),
        false => geteuid().as_raw(),
    };
    let as_nobody = format!("{MOUNT} unshare --user --map-user={user} \"$0\" \"$@\"");
    let own = [
        "unshare",
        "--mount",
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        &as_nobody,
    ];
    if geteuid().is_root() {
        perform_within(name, &["unshare", "--mount", "sh", "-c", &as_root], None);
        perform_within(name, &own, Some(user));
    } else {
        perform_within(name, &own, None);
    }
}

/// Where the ledgers of this user are by themselves.
fn first() -> PathBuf {
    match geteuid().is_root() {
        true => "/run/mcp-lifecycle".into(),
        false => shared("/tmp"),
    }
}

fn shared(parent: &str) -> PathBuf {
    Path::new(parent).join(format!("mcp-lifecycle-{}", geteuid()))
}

fn ledgers_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// A host with these variables, and a daemon that outlives it.
fn host(stage: &Stage, variables: &[(&str, &str)]) -> std::process::Child {
    let mut command = stage::role("orphans::host");
    command.env(OBSERVER, stage.alive.address());
    command
        .env("MCP_TEST_SHAPES", "double-fork")
        .env("MCP_TEST_GROUP", "1");
    command.envs(variables.iter().copied());
    let mut host = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    launched(&mut host);
    stage.wait_for("daemon");
    host
}

#[track_caller]
fn is_reaped(stage: &Stage) {
    let report = reap(stage);
    stage.nobody_is_left();
    assert!(
        report.failed.is_empty() && !report.ended.is_empty(),
        "{report:?}"
    );
}

#[test]
fn hosts_with_different_environments_find_each_others() {
    perform("places::environments");
}

#[test]
#[ignore = "a role"]
fn environments() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    assert!(
        env::var_os("XDG_RUNTIME_DIR").is_none(),
        "this one has none"
    );
    for directory in ["/tmp/runtime", "/tmp/temporary"] {
        fs::create_dir(directory).unwrap();
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let variables = [
        ("XDG_RUNTIME_DIR", "/tmp/runtime"),
        ("TMPDIR", "/tmp/temporary"),
    ];
    end(host(&stage, &variables));
    assert_eq!(ledgers_in(&first()).len(), 1);
    is_reaped(&stage);
    assert!(ledgers_in(&first()).is_empty());
}

#[test]
fn a_directory_that_somebody_else_made_is_not_used() {
    perform("places::squatted");
}

#[test]
#[ignore = "a role"]
fn squatted() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let squatted = first();
    if geteuid().is_root() {
        fs::create_dir(&squatted).unwrap();
        chown(&squatted, Some(NOBODY), Some(NOBODY)).unwrap();
        symlink("/etc", shared("/tmp")).unwrap();
    } else {
        fs::create_dir("/tmp/elsewhere").unwrap();
        symlink("/tmp/elsewhere", &squatted).unwrap();
    }
    end(host(&stage, &[]));
    assert!(ledgers_in(&squatted).is_empty());
    assert_eq!(ledgers_in(&shared("/var/tmp")).len(), 1);
    is_reaped(&stage);
}

#[test]
fn a_directory_that_is_full_or_open_to_others_is_not_used() {
    perform("places::unusable");
}

#[test]
#[ignore = "a role"]
fn unusable() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let full = first();
    let mut filler = fs::File::create(full.with_file_name("filler")).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
    for parent in ["/tmp", "/var/tmp"].map(shared) {
        if parent != full {
            fs::create_dir(&parent).unwrap();
            fs::set_permissions(&parent, fs::Permissions::from_mode(0o777)).unwrap();
        }
    }
    end(host(&stage, &[]));
    let last = shared("/dev/shm");
    assert_eq!(ledgers_in(&last).len(), 1, "{:?}", ledgers_in(&full));
    let report = reap(&stage);
    stage.nobody_is_left();
    // It may be that ours was opened to others after somebody had used it.
    let open = shared("/var/tmp").display().to_string();
    let is_open = |unknown: &mcp_lifecycle_core::launch::UnknownRemnant| {
        unknown.what.id == open && unknown.why.contains("open to other users")
    };
    assert!(report.unknown.iter().any(is_open), "{report:?}");
    assert!(ledgers_in(&last).is_empty(), "{report:?}");
}

#[test]
fn a_ledger_whose_name_was_removed_comes_back() {
    perform("places::cleaned");
}

#[test]
#[ignore = "a role"]
fn cleaned() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut host = host(&stage, &[]);
    let old = ledgers_in(&first());
    fs::remove_file(&old[0]).unwrap();
    // It lives, whatever was removed.
    let report = reap(&stage);
    assert_eq!(
        (&report.ended, &report.failed),
        (&vec![], &vec![]),
        "{report:?}"
    );
    // Its next server puts it back, with all that is on record.
    host.stdin.as_mut().unwrap().write_all(b"+").unwrap();
    stage.wait_for("server");
    stage.wait_for("server");
    wait_until(|| ledgers_in(&first()) == old);
    end(host);
    is_reaped(&stage);
    assert!(ledgers_in(&first()).is_empty());
}

#[test]
fn a_ledger_that_has_moved_comes_back_as_well() {
    perform("places::moved");
}

#[test]
#[ignore = "a role"]
fn moved() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let mut host = host(&stage, &[]);
    let old = ledgers_in(&first());
    // The kernel says nothing of that: its next server puts it back.
    let away = first().with_extension("away");
    fs::rename(first(), &away).unwrap();
    host.stdin.as_mut().unwrap().write_all(b"+").unwrap();
    stage.wait_for("server");
    stage.wait_for("server");
    // By its name, which it gets once it is complete.
    wait_until(|| ledgers_in(&first()) == old);
    // And nothing else does, from here on, than the kernel's word.
    for _ in 0..100 {
        fs::remove_file(&old[0]).unwrap();
        wait_until(|| ledgers_in(&first()) == old);
    }
    end(host);
    is_reaped(&stage);
    fs::remove_dir_all(away).unwrap();
}

/// For what the kernel tells nobody.
#[track_caller]
fn wait_until(happens: impl Fn() -> bool) {
    let until = Instant::now() + LIMIT;
    while !happens() {
        assert!(Instant::now() < until, "it does not happen");
        std::thread::yield_now();
    }
}
