//! A host whose log panics, whatever is said to it.

use std::env;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_launcher_local::{Isolation, LocalLauncher};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata};

use crate::guardian_killed::guardian_of;
use crate::kill_first::leader_of;
use crate::stage::{STATE, Stage, perform, plays};

static PANICS: AtomicUsize = AtomicUsize::new(0);

struct NoLog;

impl NoLog {
    fn panic() -> ! {
        PANICS.fetch_add(1, Ordering::Relaxed);
        panic!("no log");
    }
}

impl tracing::Subscriber for NoLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("mcp_tree")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Self::panic()
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {
        Self::panic()
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_log_that_panics_costs_no_launch_and_no_end() {
    perform("no_log::launches_and_ends");
}

#[test]
#[ignore = "a role"]
fn launches_and_ends() {
    if !plays() {
        return;
    }
    tracing::subscriber::set_global_default(NoLog).unwrap();
    // A ledger cannot be kept here, which is worth a line.
    fs::write(env::var_os(STATE).unwrap(), "").unwrap();
    let levels = [
        Isolation::ProcessGroup,
        Isolation::Guardian,
        Isolation::PidNamespace,
    ];
    for isolation in levels {
        let mut stage = Stage::new();
        stage.launcher = Arc::new(LocalLauncher::builder().isolation(isolation).build());
        for round in 0..2 {
            let server = stage.launch(&["double-fork"]);
            stage.wait_for("server");
            stage.wait_for("daemon");
            // What nobody expected is worth a line as well.
            let expected = round == 0;
            let killed = match isolation {
                Isolation::ProcessGroup => leader_of(&server),
                _ => guardian_of(&server),
            };
            if !expected {
                kill(killed, Signal::SIGKILL).unwrap();
            }
            let terminator = server.terminator();
            if expected {
                stage.wait("the order", terminator.force_end()).unwrap();
            }
            let gone = stage.wait("the last word", terminator.gone());
            assert!(gone.is_ok() || !expected, "{isolation:?}: {gone:?}");
            end_what_is_left(&stage);
        }
    }
    assert_ne!(PANICS.load(Ordering::Relaxed), 0, "nothing was said");
}

/// Ends the processes that no level but the best one reaches.
fn end_what_is_left(stage: &Stage) {
    for process in stage.alive.connections() {
        if !process.is_dead() {
            let pid = i32::try_from(process.pid()).unwrap();
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    stage.nobody_is_left();
}
