//! A host with spare guardians that forks and executes nothing: they are not the copy's.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher, ServerSpec};
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

const STATE: &str = "MCP_LIFECYCLE_STATE_DIR";

/// The copy of a host is killed after this time, in seconds: something holds it up for ever.
const HUNG: u32 = 60;

/// In a process of its own, with a ledger of its own.
fn perform(role: &str) {
    let state = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir()
        .unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let command = command.args(["--exact", role, "--ignored", "--nocapture"]);
    let output = command.env(STATE, state.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let words = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && said.contains("1 passed");
    assert!(passed, "{}\n{said}\n{words}", output.status);
}

/// What a copy of this process does before it ends, in time; whether it is as it should be.
fn in_a_copy(act: impl FnOnce() -> bool) {
    // SAFETY: the copy uses nothing that another thread may have locked but the allocator,
    // which the C library sees to, and what is tried here; it ends without running exits.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            // SAFETY: sets a timer of the kernel's.
            unsafe { libc::alarm(HUNG) };
            let code = i32::from(!act());
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(code) }
        }
        ForkResult::Parent { child } => {
            let ended = waitpid(child, None).unwrap();
            assert!(matches!(ended, WaitStatus::Exited(_, 0)), "{ended:?}");
        }
    }
}

fn warm() -> LocalLauncher {
    let launcher = LocalLauncher::new().spare_guardians(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    assert_eq!(runtime.block_on(launcher.warm_up()), 1);
    launcher
}

/// Whether a launch is refused at once.
fn launches_nothing(launcher: &LocalLauncher) -> bool {
    let spec = ServerSpec::builder("true", "/bin/true").build().unwrap();
    let context = LaunchContext::new();
    let launch = launcher.launch(&spec, &context);
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(launch).is_err()
}

/// The files of the ledger.
fn ledger(directory: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => ledger(&path, found),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
}

fn ledger_of_this() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    ledger(Path::new(&std::env::var_os(STATE).unwrap()), &mut found);
    assert!(found.values().any(|bytes| !bytes.is_empty()), "{found:?}");
    found
}

#[test]
fn a_copy_that_gives_spares_up_takes_nothing_from_its_host() {
    perform("gives_up");
}

#[test]
#[ignore = "a role"]
fn gives_up() {
    let launcher = warm();
    let before = ledger_of_this();
    in_a_copy(|| {
        launcher.give_up_spares();
        true
    });
    assert_eq!(ledger_of_this(), before);
}

#[test]
fn a_copy_waits_for_no_thread_of_its_host() {
    perform("drops");
}

#[test]
#[ignore = "a role"]
fn drops() {
    let launcher: &'static LocalLauncher = Box::leak(Box::new(warm()));
    std::thread::spawn(|| {
        loop {
            launcher.give_up_spares();
        }
    });
    for _ in 0..100 {
        in_a_copy(|| {
            launcher.give_up_spares();
            let refused = launches_nothing(launcher);
            // SAFETY: the copy has no other thread, and uses the launcher no more.
            drop(unsafe { std::ptr::read(launcher) });
            refused
        });
    }
}
