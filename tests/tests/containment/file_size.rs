//! A limit on the size of files, beyond which the kernel sends SIGXFSZ.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::stage::{Stage, perform, plays};

/// No byte, less than a ledger, less than the guardian's program.
const SIZES: [u64; 4] = [0, 100, 4096, 20_000];

fn limit(size: u64) {
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, size, hard).unwrap();
}

fn ends(stage: &Stage, server: mcp_lifecycle_core::launch::LaunchedServer) {
    stage.wait_for("server");
    let terminator = server.terminator().clone();
    stage.wait("the order", terminator.force_end()).unwrap();
    stage.wait("the proof", terminator.gone()).unwrap();
    stage.nobody_is_left();
}

#[test]
fn a_limit_of_file_sizes_is_like_a_full_disk() {
    for role in ["before", "meanwhile"] {
        perform(&format!("file_size::{role}_the_launch"));
    }
}

/// Every launch is refused its guardian's program, and its ledger in part.
#[test]
#[ignore = "a role"]
fn before_the_launch() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    for size in SIZES {
        limit(size);
        ends(&stage, stage.launch(&["plain"]));
    }
}

/// The ledger cannot be written at the end.
#[test]
#[ignore = "a role"]
fn meanwhile_the_launch() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let server = stage.launch(&["plain"]);
    limit(0);
    ends(&stage, server);
    ends(&stage, stage.launch(&["plain"]));
}
