//! A host that gives up its rights after the launch, as daemons do.

use mcp_lifecycle_core::launch::Evidence;
use nix::unistd::{Gid, Uid, geteuid, seteuid, setresgid, setresuid};

use crate::stage::{NOBODY, Stage, has_cgroups, leaves, perform, plays};

const ROOT: Uid = Uid::from_raw(0);

#[test]
fn a_host_that_drops_its_rights_after_the_launch_gets_the_proof() {
    perform("dropped_rights::user");
}

#[test]
#[ignore = "a role"]
fn user() {
    if !plays() || !has_cgroups() || !geteuid().is_root() {
        return println!("NOT TESTED: only root has rights to drop, and here cgroups");
    }
    let stage = Stage::new();
    let asked = stage.launch(&["plain"]);
    let forced = stage.launch(&["double-fork", "--ignore-eof", "--ignore-term"]);
    for role in ["server", "server", "daemon"] {
        stage.wait_for(role);
    }
    assert_eq!(leaves().len(), 2);
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    setresgid(group, group, group).unwrap();
    // For what this test looks at in the end: the saved user gives no right by itself.
    setresuid(user, user, ROOT).unwrap();
    let forced = forced.terminator().clone();
    stage.wait("the order", forced.force_end()).unwrap();
    // It leaves at the end of its input.
    let asked = asked.into_parts().terminator;
    for server in [asked, forced] {
        let gone = stage.wait("the proof", server.gone()).unwrap();
        let evidence = [
            Evidence::Reaped,
            Evidence::CgroupEmpty,
            Evidence::NoneMarked,
        ];
        assert_eq!(gone.evidence, evidence, "{gone:?}");
    }
    seteuid(ROOT).unwrap();
    stage.nobody_is_left();
    assert!(leaves().is_empty(), "{:?}", leaves());
}
