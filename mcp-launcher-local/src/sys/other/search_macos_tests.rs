//! What the lineage takes for true of macOS, asked of one. Compiled here, and run on no machine of ours.
//!
//! Servers are this program, executed again: of Apple's own the system tells no environment.

use std::env;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use super::*;
use crate::identity::{Cookie, HostId, VARIABLE};
use crate::lineage::{Searcher, reap};
use crate::sys::lifeline;

const DEADLINE: Duration = Duration::from_secs(20);

/// A search ends what any other test has left on purpose.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server with a helper of Apple's, which has its output too; ends at the end of its input.
#[test]
#[ignore = "the server of other tests"]
fn serves() {
    if env::var_os(VARIABLE).is_none() {
        return;
    }
    let mut helper = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
    println!("ready");
    let _ = io::stdin().read(&mut [0]);
    helper.kill().unwrap();
    helper.wait().unwrap();
}

fn serve(cookie: &Cookie) -> Child {
    let name = format!("{}::serves", module_path!().split_once("::").unwrap().1);
    let mut server = Command::new(env::current_exe().unwrap())
        .args(["--exact", &name, "--ignored", "--nocapture"])
        .env(VARIABLE, cookie.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Until its helper runs.
    let stdout = server.stdout.as_mut().unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"ready\n") {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        said.extend(byte);
    }
    server
}

fn pid_of(child: &Child) -> Pid {
    Pid::new(child.id().into()).unwrap()
}

fn mac() -> Mac {
    Mac::new(DEADLINE)
}

fn host(pid: u32, start_time: u64) -> HostId {
    HostId::new(pid, start_time, &crate::sys::boot_id().unwrap(), 7).unwrap()
}

/// A host that has died: a process that was started, and reaped.
fn dead_host() -> HostId {
    let mut process = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
    let fact = mac().fact(pid_of(&process)).unwrap().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    host(process.id(), fact.start_time)
}

#[test]
fn everybody_answers_other_users_processes_as_well() {
    let mut mac = mac();
    let listing = mac.list().unwrap();
    assert!(listing.is_whole);
    let facts = listing.pids.iter().map(|pid| mac.fact(*pid).unwrap());
    let facts: Vec<Fact> = facts.flatten().collect();
    assert!(facts.iter().any(|fact| !fact.is_own));
    let own = std::process::id();
    let own = facts.iter().find(|fact| fact.seen.pid.as_u32() == own);
    let own = own.unwrap();
    assert!(own.is_own && !own.seen.is_zombie);
    assert_eq!(own.start_time, crate::sys::own_start_time().unwrap());
}

#[test]
fn a_zombie_answers_and_its_links_stay() {
    let mut process = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
    let pid = pid_of(&process);
    let alive = ids::seen(pid).unwrap().unwrap();
    let own = Pid::new(std::process::id().into()).unwrap();
    let own = ids::seen(own).unwrap().unwrap();
    assert_eq!(alive.started_by, own.unique);
    assert!(alive.unique > own.unique);
    process.kill().unwrap();
    super::super::wait::peek(pid).unwrap();
    let end = Instant::now() + DEADLINE;
    while !ids::seen(pid).unwrap().unwrap().is_zombie {
        assert!(Instant::now() < end);
        thread::yield_now();
    }
    let dead = ids::seen(pid).unwrap().unwrap();
    assert_eq!((dead.unique, dead.started_by), (alive.unique, own.unique));
    process.wait().unwrap();
    assert_ne!(
        ids::seen(pid).unwrap().map(|now| now.unique),
        Some(alive.unique)
    );
}

#[test]
fn a_mark_is_read_and_a_watcher_known() {
    let _alone = alone();
    let cookie = Cookie::new(dead_host(), 1);
    let mut server = serve(&cookie);
    let said = mac().read(pid_of(&server));
    drop(server.stdin.take());
    server.wait().unwrap();
    assert_eq!(said.mark, Mark::Cookie(cookie));
    assert!(!said.is_watcher);

    let mut watcher = Command::new("/bin/sh")
        .args(["-c", "read -r line; exit", lifeline::NAME])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + DEADLINE;
    // `/bin/sh` executes another program first.
    while !mac().read(pid_of(&watcher)).is_watcher {
        assert!(Instant::now() < end);
        thread::yield_now();
    }
    drop(watcher.stdin.take());
    watcher.wait().unwrap();
}

#[test]
fn what_a_dead_host_left_ends_with_its_helper_and_a_living_host_s_server_does_not() {
    let _alone = alone();
    let mut left = serve(&Cookie::new(dead_host(), 1));
    let own = host(std::process::id(), crate::sys::own_start_time().unwrap());
    let mut kept = serve(&Cookie::new(own, 2));
    let boot_id = crate::sys::boot_id().unwrap();
    let searcher = Searcher {
        this: None,
        pid: std::process::id(),
        boot_id: &boot_id,
    };
    let report = reap(&mut mac(), &searcher).unwrap();
    let names = |child: &Child| child.id().to_string();
    assert!(
        report.ended.iter().any(|one| one.id == names(&left)),
        "{report}"
    );
    assert!(
        report.spared.iter().any(|one| one.id == names(&kept)),
        "{report}"
    );
    assert_eq!(left.wait().unwrap().signal(), Some(libc::SIGKILL));
    // The end of file is that of the helper as well.
    let mut stdout = left.stdout.take().unwrap();
    let (said, heard) = mpsc::channel();
    thread::spawn(move || {
        let _ = stdout.read_to_end(&mut Vec::new());
        let _ = said.send(());
    });
    heard.recv_timeout(DEADLINE).unwrap();
    assert!(kept.try_wait().unwrap().is_none());
    drop(kept.stdin.take());
    assert!(kept.wait().unwrap().success());
}
