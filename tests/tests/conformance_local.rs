//! The conformance kit on the local launcher, at each level of isolation.

use std::process::ExitCode;
#[cfg(unix)]
use std::{
    os::unix::{fs::chown, process::CommandExt},
    process::Command,
};

#[cfg(unix)]
use mcp_launcher_local::Isolation;
use mcp_launcher_local::LocalLauncher;
#[cfg(unix)]
use mcp_lifecycle_conformance::copies::Copies;
use mcp_lifecycle_conformance::{Kit, main as run};

#[cfg(unix)]
const NOBODY: u32 = 65534;

/// Windows has one level. Wine is slow where the machine is busy.
#[cfg(windows)]
fn main() -> ExitCode {
    let kit = Kit::new("job", || async { LocalLauncher::new() });
    let ended = run([kit.limit(std::time::Duration::from_secs(30))]);
    mcp_lifecycle_conformance::wine::report();
    ended
}

#[cfg(unix)]
fn main() -> ExitCode {
    run([
        kit("guardian", Isolation::Guardian),
        kit("process-group", Isolation::ProcessGroup),
        kit("guardian-as-nobody", Isolation::Guardian).processes(as_nobody),
        kit("process-group-as-nobody", Isolation::ProcessGroup).processes(as_nobody),
    ])
}

#[cfg(unix)]
fn kit(name: &str, isolation: Isolation) -> Kit {
    Kit::new(name, move || async move {
        LocalLauncher::builder().isolation(isolation).build()
    })
}

/// A user without privileges, to whom no cgroup was delegated.
#[cfg(unix)]
fn as_nobody() -> Result<impl Fn() -> Command, String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("nobody here is root: the other kits are this one".to_owned());
    }
    let directory = tempfile::tempdir().unwrap();
    chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let copies = Copies::make(env!("CARGO_BIN_EXE_mcp-fixture").as_ref()).unwrap();
    Ok(move || {
        let mut command = copies.command();
        command.env("MCP_LIFECYCLE_STATE_DIR", directory.path());
        command.uid(NOBODY).gid(NOBODY);
        command
    })
}
