//! Machines on which the guardian's program cannot be executed from memory.

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_conformance::deadline::Watchdog;
use nix::unistd::geteuid;

use crate::stage::{LIMIT, STATE, Stage, plays, role_within};

/// No memory, and then no file either, may be executed.
const NO_MEMORY: &str = "echo 2 >/proc/sys/vm/memfd_noexec && exec \"$0\" \"$@\"";
const NO_FILE: &str = "for dir in /run /tmp /var/tmp /dev/shm; do \
     mount -t tmpfs -o noexec tmpfs $dir || exit; done; \
     echo 2 >/proc/sys/vm/memfd_noexec && exec \"$0\" \"$@\"";

/// As root alone: nobody else may refuse it.
fn perform_where(script: &str, role: &str) {
    if geteuid().is_root() {
        let _watchdog = Watchdog::arm(role, LIMIT * 3);
        let own = [
            "unshare",
            "--pid",
            "--mount",
            "--fork",
            "--mount-proc",
            "sh",
            "-c",
            script,
        ];
        let mut command = role_within(&own, role);
        command.env_remove("XDG_RUNTIME_DIR").env_remove("TMPDIR");
        let output = command.env_remove(STATE).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let passed = output.status.success() && said.contains("1 passed");
        assert!(passed, "{role}: {output:?}");
    } else {
        println!("SKIPPED: it takes root to refuse the execution of memory");
    }
}

#[test]
fn where_memory_may_not_be_executed_a_private_file_is() {
    perform_where(NO_MEMORY, "noexec::from_a_file");
}

#[test]
#[ignore = "a role"]
fn from_a_file() {
    if plays() {
        let containment = ended_by();
        assert!(containment.starts_with("guardian"), "{containment}");
    }
}

#[test]
fn where_nothing_may_be_executed_a_process_group_is_what_there_is() {
    perform_where(NO_FILE, "noexec::without_a_guardian");
}

#[test]
#[ignore = "a role"]
fn without_a_guardian() {
    if plays() {
        let containment = ended_by();
        assert!(containment.starts_with("process group"), "{containment}");
        assert!(containment.contains("refuses to execute"), "{containment}");
    }
}

/// The mechanism that holds a server there, which is launched, and ended with a proof.
fn ended_by() -> String {
    let stage = Stage::new();
    let containment = stage.wait("the probe", LocalLauncher::new().probe());
    let server = stage.launch(&["ignore-eof-term"]);
    stage.wait_for("server");
    let terminator = server.terminator();
    stage.wait("the order", terminator.force_end()).unwrap();
    stage.wait("the proof", terminator.gone()).unwrap();
    stage.nobody_is_left();
    containment.to_string()
}
