//! A host whose log panics: whatever happens to it, the servers are none of its business.

use std::fs;
use std::io::Stderr;
use std::panic;

use nix::sys::signal::{Signal, kill};

use crate::guardian_killed::{adopts_its_orphans, guardian_of};
use crate::orphans::shelf;
use crate::stage::{Stage, has_cgroups, perform, plays};

/// The log's own message.
const PANIC: &str = "a log that panics";

#[test]
fn a_log_that_panics_costs_no_proof() {
    perform("panics::log");
}

#[test]
#[ignore = "a role"]
fn log() {
    if !plays() {
        return;
    }
    adopts_its_orphans();
    let stage = Stage::new();
    let servers = [(); 3].map(|()| stage.launch(&["double-fork"]));
    for _ in &servers {
        stage.wait_for("daemon");
    }
    let said = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        if what.payload_as_str() != Some(PANIC) {
            said(what);
        }
    }));
    let log =
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE);
    log.with_writer(|| -> Stderr { panic::panic_any(PANIC) })
        .init();
    // There is something to say: nothing can be written down any more.
    fs::rename(shelf(), shelf().with_extension("away")).unwrap();
    fs::write(shelf(), "in the way").unwrap();
    let [killed, forced, dropped] = servers;
    let mut ends = vec![dropped.terminator().clone()];
    drop(dropped);
    stage
        .wait("the order", forced.terminator().force_end())
        .unwrap();
    ends.push(forced.terminator().clone());
    if has_cgroups() {
        kill(guardian_of(&killed), Signal::SIGKILL).unwrap();
        ends.push(killed.terminator().clone());
    } else {
        drop(killed);
    }
    for terminator in ends {
        stage.wait("the proof", terminator.gone()).unwrap();
    }
    stage.nobody_is_left();
    // Nor a search.
    fs::remove_file(shelf()).unwrap();
    let report = stage.wait("the search", stage.launcher.reap_orphans());
    report.unwrap();
}
