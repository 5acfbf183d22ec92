//! /proc is where descendants are looked up. Without it, the kernel still knows whose children they are.

use std::process::{Command, Stdio};

use crate::lab::{Alive, Guarded, Options};

/// A host in a mount namespace of its own, whose server covers /proc with an empty file system.
#[test]
#[ignore = "a role"]
fn host_without_proc() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let mut alive = Alive::new();
    let script = alive.script(
        "trap '' TERM; mount -t tmpfs none /proc || exit 9; S='printf . >&9; while :; do sleep 3600; done'
        (setsid sh -c \"$S\" &); setsid sh -c \"$S\" & eval \"$S\"",
    );
    let server = Guarded::sh(&script, &Options::default());
    server.started();
    alive.ready(3);
    let swept = server.kill();
    assert!(!alive.somebody_is_left());
    assert!(swept.count >= 2, "{swept:?}");
}

const ROLE: &str = "MCP_TEST_WITHOUT_PROC";

#[test]
fn killing_works_without_proc() {
    let private = |command: &[&std::ffi::OsStr]| {
        let mut unshare = Command::new("unshare");
        unshare
            .arg("--mount")
            .args(command)
            .env(ROLE, "1")
            .stdin(Stdio::null());
        unshare.output()
    };
    if !private(&["true".as_ref()]).is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no mount namespace can be created here");
        return;
    }
    let program = std::env::current_exe().expect("current_exe");
    let role = "proc_missing::host_without_proc";
    let arguments = ["--exact", role, "--ignored", "--nocapture"].map(AsRef::as_ref);
    let output = private(&[&[program.as_os_str()], &arguments[..]].concat()).expect("unshare");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
