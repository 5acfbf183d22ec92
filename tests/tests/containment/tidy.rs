//! Files that earlier hosts left are tidied away, and nobody waits for that.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::orphans::shelf;
use crate::stage::{Stage, perform, plays};

#[test]
fn a_host_tidies_up_after_others_know_of_it_and_never_again() {
    perform("tidy::once");
}

/// Makes the file of a host that died before its ledger had a name.
fn litter(name: &str) {
    let mut file = OpenOptions::new();
    let file = file.write(true).create_new(true).mode(0o600);
    file.open(shelf().join(name)).unwrap();
}

#[test]
#[ignore = "a role"]
fn once() {
    if !plays() {
        return;
    }
    fs::DirBuilder::new().mode(0o700).create(shelf()).unwrap();
    litter("0000000000000001.new");
    let events = Inotify::init(InitFlags::empty()).unwrap();
    let what = AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_DELETE;
    events.add_watch(&shelf(), what).unwrap();
    let mut seen = Vec::new();
    let mut next = || {
        while seen.is_empty() {
            // In order; the watchdog ends a wait for what never comes.
            seen.extend(events.read_events().unwrap().into_iter().rev());
        }
        let event = seen.pop().unwrap();
        (event.mask, event.name.unwrap())
    };
    let stage = Stage::new();
    let first = stage.launch(&["plain"]);
    let (kind, own) = next();
    assert_eq!(kind, AddWatchFlags::IN_MOVED_TO, "{own:?} is first");
    let (kind, name) = next();
    assert_eq!(kind, AddWatchFlags::IN_DELETE);
    assert_eq!(name, "0000000000000001.new");
    // Made anew, it is not looked at others.
    litter("0000000000000002.new");
    fs::remove_file(shelf().join(&own)).unwrap();
    assert_eq!(next(), (AddWatchFlags::IN_DELETE, own.clone()));
    assert_eq!(next(), (AddWatchFlags::IN_MOVED_TO, own));
    for server in [stage.launch(&["plain"]), first] {
        let terminator = server.terminator().clone();
        drop(server);
        stage.wait("the proof", terminator.gone()).unwrap();
    }
    assert!(shelf().join("0000000000000002.new").exists());
}
