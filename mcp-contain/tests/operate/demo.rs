//! `demo`: what survives, and that nothing does in the end.

use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::sync::mpsc;
use std::thread;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::{DEADLINE, PROGRAM, Place};

#[test]
fn the_demonstration_shows_survivors_and_leaves_none() {
    let place = Place::new("demo");
    // Everything that is not behind the wrapper inherits this; the table says the rest.
    let (mut all, writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    assert!(writer.as_raw_fd() > 2);
    let output = place.command(PROGRAM).arg("demo").output().unwrap();
    drop(writer);
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    let (quits, killed) = (row("host quits"), row("host is killed"));
    assert!(quits.contains("SURVIVES: helper "), "{text}");
    assert!(
        killed.contains("SURVIVES: ") && killed.contains("server ") && killed.contains("helper "),
        "{text}"
    );
    for row in [quits, killed] {
        assert!(row.contains("nothing is left ("), "{text}");
    }
    let (ended, end) = mpsc::channel();
    thread::spawn(move || ended.send(all.read_to_end(&mut Vec::new())));
    end.recv_timeout(DEADLINE)
        .expect("something is left")
        .unwrap();
}
