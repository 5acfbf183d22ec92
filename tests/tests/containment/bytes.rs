//! Text of the kernel's that is no UTF-8: names and paths are bytes.

use std::fs;

use mcp_lifecycle_core::launch::{Evidence, ReapReport};
use nix::sys::signal::{Signal, kill};
use nix::unistd::geteuid;

use crate::guardian_killed::{adopts_its_orphans, guardian_of};
use crate::orphans::ledgers;
use crate::stage::{Stage, has_cgroups, perform, perform_within, plays};
use crate::unseen::{ends_all, orphans_of};

#[test]
fn a_host_whose_name_is_cut_inside_a_character_proves_and_finds_as_any_other() {
    perform("bytes::name");
}

#[test]
#[ignore = "a role"]
fn name() {
    if !plays() {
        return;
    }
    // What the kernel makes of a program called "fourteen bytes" and an umlaut.
    fs::write("/proc/self/comm", b"fourteen-bytes\xC3").unwrap();
    proves_and_finds();
}

#[test]
fn a_mount_whose_name_is_no_text_hides_nothing() {
    if !geteuid().is_root() {
        return println!("NOT TESTED: mounting takes root");
    }
    let mount = "mount -t tmpfs none /mnt && name=$(printf '/mnt/\\377') && mkdir \"$name\" && \
                 mount -t tmpfs none \"$name\" && exec \"$0\" \"$@\"";
    perform_within(
        "bytes::mount",
        &["unshare", "--mount", "sh", "-c", mount],
        None,
    );
}

#[test]
#[ignore = "a role"]
fn mount() {
    if plays() {
        let mounts = fs::read("/proc/self/mountinfo").unwrap();
        assert!(
            str::from_utf8(&mounts).is_err(),
            "this is about other bytes"
        );
        let stage = Stage::new();
        let report = stage.wait("the search", stage.launcher.reap_orphans());
        report.unwrap();
    }
}

fn proves_and_finds() {
    adopts_its_orphans();
    let stage = Stage::new();
    orphans_of(&stage, &["double-fork"], &["daemon"]);
    let report = stage.wait("the search", stage.launcher.reap_orphans());
    assert!(
        report.as_ref().is_ok_and(ReapReport::is_complete),
        "{report:?}"
    );
    ends_all(&stage);
    let server = stage.launch(&["ignore-eof-term"]);
    stage.wait_for("server");
    assert_eq!(ledgers(), 1, "it is written down");
    let terminator = server.terminator().clone();
    drop(server);
    let gone = stage.wait("the proof", terminator.gone()).unwrap();
    assert!(gone.evidence.contains(&Evidence::NoneMarked), "{gone:?}");
    if has_cgroups() {
        let server = stage.launch(&["double-fork"]);
        stage.wait_for("daemon");
        kill(guardian_of(&server), Signal::SIGKILL).unwrap();
        stage.wait("the proof", server.terminator().gone()).unwrap();
    }
    stage.nobody_is_left();
}
