//! A cgroup, where this machine lets us have one.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{self, Command};

use mcp_guardian::program::protocol::{Request, Stage};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::lab::{Alive, Guarded, Options, Said};

struct Leaf(PathBuf);

impl Leaf {
    /// A fresh leaf below the version 2 hierarchy, found by trying.
    fn new(what: &str) -> Option<Self> {
        ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .iter()
            .find_map(|root| {
                let path =
                    PathBuf::from(root).join(format!("mcp-guardian-{what}-{}", process::id()));
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
    let Some(leaf) = Leaf::new("joins") else {
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

impl Leaf {
    /// A server that can only be born inside: what it would join by is not open for writing.
    fn bears(&self) -> Said {
        let directory = File::open(&self.0).expect("a directory");
        let unwritable = File::open(self.0.join("cgroup.procs")).expect("cgroup.procs");
        let options = Options {
            cgroup_leaf: Some(directory.as_fd()),
            cgroup_procs: Some(unwritable.as_fd()),
            ..Options::default()
        };
        let mut server = Guarded::sh("read never", &options);
        let said = server.hear();
        if let Said::Started(pid) = said {
            assert_eq!(self.members(), format!("{pid}\n"));
            server.stdin = None;
            assert!(matches!(server.hear(), Said::Gone { .. }));
        }
        said
    }

    fn members(&self) -> String {
        fs::read_to_string(self.0.join("cgroup.procs")).expect("cgroup.procs")
    }
}

#[test]
fn the_server_is_born_inside_and_waits_for_no_grace_period() {
    let Some(leaf) = Leaf::new("born") else {
        eprintln!("skipped: no cgroup can be created here");
        return;
    };
    let said = leaf.bears();
    assert!(matches!(said, Said::Started(_)), "{said:?}");
}

/// Run by the next test, in a cgroup that was killed once.
#[test]
#[ignore = "a part of another test"]
fn in_a_cgroup_that_was_killed() {
    let leaf = Leaf::new("inner").expect("a cgroup");
    let said = leaf.bears();
    // A kernel that lets it be born has no need of the rest.
    let is_killed_at_birth = said == Said::ExecFailed(Stage::Cgroup, Errno::EBADF as i32);
    assert!(
        is_killed_at_birth || matches!(said, Said::Started(_)),
        "{said:?}"
    );
    println!("killed at birth: {is_killed_at_birth}");
    let (directory, procs) = (
        File::open(&leaf.0).expect("a directory"),
        leaf.open("cgroup.procs"),
    );
    let options = Options {
        cgroup_leaf: Some(directory.as_fd()),
        cgroup_procs: Some(procs.as_fd()),
        ..Options::default()
    };
    let mut server = Guarded::sh("echo once; read never", &options);
    let pid = server.started();
    assert_eq!(leaf.members(), format!("{pid}\n"));
    server.stdin = None;
    assert_eq!(server.read_stdout_to_end(), "once\n");
}

#[test]
fn a_server_that_is_killed_at_birth_joins_by_itself() {
    let Some(killed) = Leaf::new("killed") else {
        eprintln!("skipped: no cgroup can be created here");
        return;
    };
    killed.open("cgroup.kill").write_all(b"1").expect("kill");
    let myself = std::env::current_exe().expect("this program");
    let inner = "cgroup::in_a_cgroup_that_was_killed";
    let output = Command::new("sh")
        .arg("-c")
        .arg("echo $$ > \"$1\" && shift && exec \"$@\"")
        .args([
            "sh".as_ref(),
            killed.0.join("cgroup.procs").as_os_str(),
            myself.as_os_str(),
        ])
        .args([inner, "--exact", "--ignored", "--nocapture"])
        .output()
        .expect("sh");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.contains("killed at birth: "), "{said}");
    println!("{said}");
}

/// Returns when the process has stopped, or has gone on.
fn wait_for_state(pid: u32, is_wanted: impl Fn(char) -> bool) {
    let end = std::time::Instant::now() + crate::lab::DEADLINE;
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
        let state = stat.rsplit(") ").next().and_then(|it| it.chars().next());
        if state.is_some_and(&is_wanted) {
            return;
        }
        assert!(std::time::Instant::now() < end, "{stat}");
        std::thread::yield_now();
    }
}

#[test]
fn no_second_server_is_created_for_one_that_was_killed_before_its_first_word() {
    let Some(leaf) = Leaf::new("ordered") else {
        eprintln!("skipped: no cgroup can be created here");
        return;
    };
    // What is born in a frozen cgroup says nothing.
    leaf.open("cgroup.freeze").write_all(b"1").expect("freeze");
    let directory = File::open(&leaf.0).expect("a directory");
    let (procs, kill) = (leaf.open("cgroup.procs"), leaf.open("cgroup.kill"));
    let options = Options {
        cgroup_leaf: Some(directory.as_fd()),
        cgroup_procs: Some(procs.as_fd()),
        cgroup_kill: Some(kill.as_fd()),
        ..Options::default()
    };
    let mut server = Guarded::sh("echo executed", &options);
    let end = std::time::Instant::now() + crate::lab::DEADLINE;
    let first: u32 = loop {
        if let Ok(pid) = leaf.members().trim().parse() {
            break pid;
        }
        assert!(std::time::Instant::now() < end, "nobody is born inside");
        std::thread::yield_now();
    };
    let guardian = server.handle.pid();
    let send = |signal| {
        let guardian = Pid::from_raw(i32::try_from(guardian).expect("a number"));
        nix::sys::signal::kill(guardian, signal).expect("kill");
    };
    // It sleeps in the wait for the first word, and sees everything that follows at once.
    wait_for_state(guardian, |state| state == 'S');
    send(Signal::SIGSTOP);
    wait_for_state(guardian, |state| state == 'T');
    server.ask(Request::Kill);
    leaf.open("cgroup.kill").write_all(b"1").expect("kill");
    leaf.open("cgroup.freeze").write_all(b"0").expect("thaw");
    wait_for_state(first, |state| state == 'Z');
    send(Signal::SIGCONT);
    assert_eq!(server.started(), first, "no other one");
    let (status, swept, _) = server.gone();
    assert_eq!((status, swept.count), (libc::SIGKILL, 0));
    assert_eq!(server.read_stdout_to_end(), "");
}
