//! The watchdog aborts, and only then.

use std::process::Command;
use std::time::Duration;

use mcp_lifecycle_conformance::deadline::Watchdog;

/// Set in the process that is meant to be aborted.
const VICTIM: &str = "MCP_CONFORMANCE_VICTIM";

#[test]
fn it_aborts_what_overruns() {
    if std::env::var_os(VICTIM).is_some() {
        let _watchdog = Watchdog::arm("the victim", Duration::from_millis(20));
        loop {
            std::thread::park();
        }
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "it_aborts_what_overruns", "--nocapture"])
        .env(VICTIM, "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), None, "a signal ended it");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("the victim has not finished"), "{stderr}");
}

#[test]
fn it_leaves_alone_what_finishes() {
    drop(Watchdog::arm("nothing", Duration::from_secs(3600)));
}
