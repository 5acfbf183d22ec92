//! A cgroup, where this machine lets us have one.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process;

use crate::lab::{Alive, Guarded, Options};

struct Leaf(PathBuf);

impl Leaf {
    /// A fresh leaf below the version 2 hierarchy, found by trying.
    fn new() -> Option<Self> {
        ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .iter()
            .find_map(|root| {
                let path = PathBuf::from(root).join(format!("mcp-guardian-test-{}", process::id()));
                fs::metadata(PathBuf::from(root).join("cgroup.controllers")).ok()?;
                fs::create_dir(&path).ok()?;
                let leaf = Self(path);
                fs::metadata(leaf.0.join("cgroup.kill")).ok()?;
                Some(leaf)
            })
    }

    fn open(&self, name: &str) -> File {
        OpenOptions::new()
            .write(true)
            .open(self.0.join(name))
            .expect(name)
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        // Busy until the last exit has finished, which is a moment after it was reaped.
        let end = std::time::Instant::now() + crate::lab::DEADLINE;
        while fs::remove_dir(&self.0).is_err() && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_server_joins_before_its_first_instruction_and_is_killed_with_it() {
    let Some(leaf) = Leaf::new() else {
        eprintln!("skipped: no cgroup can be created here");
        return;
    };
    let mut alive = Alive::new();
    let (procs, kill) = (leaf.open("cgroup.procs"), leaf.open("cgroup.kill"));
    let options = Options {
        cgroup_procs: Some(procs.as_fd()),
        cgroup_kill: Some(kill.as_fd()),
        ..Options::default()
    };
    let script = alive.script(
        "trap '' TERM; setsid sh -c 'printf . >&9; read never <&9' & printf . >&9; read never",
    );
    let server = Guarded::sh(&script, &options);
    let pid = server.started();
    alive.ready(2);
    let members = fs::read_to_string(leaf.0.join("cgroup.procs")).expect("cgroup.procs");
    assert!(
        members.lines().any(|member| member == pid.to_string()),
        "{pid} in {members:?}"
    );
    assert!(
        !members
            .lines()
            .any(|member| member == server.handle.pid().to_string()),
        "the guardian stays outside"
    );
    server.kill();
    assert!(!alive.somebody_is_left());
    assert_eq!(
        fs::read_to_string(leaf.0.join("cgroup.procs")).expect("cgroup.procs"),
        ""
    );
}
