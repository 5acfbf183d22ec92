//! A process whose main thread has ended, while others go on: its state is that
//! of a zombie, and it is none.

use nix::libc;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{Pid, getpid};

use crate::guardian_held::wait_for_state;
use crate::orphans::{HEADLESS, kill_with_guardians, launched, ledgers, start_host_with};
use crate::stage::{Stage, has_cgroups, leaves, perform, plays};
use crate::unseen::ends_all;

#[test]
fn it_is_named_and_asked_to_end_like_any_other() {
    perform("headless::asked");
}

#[test]
#[ignore = "a role"]
fn asked() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let server = stage.launch(&["headless"]);
    for role in ["headless", "server"] {
        stage.wait_for(role);
    }
    let terminator = server.terminator();
    let named = stage.wait("the names", terminator.survivors()).unwrap();
    assert_eq!(named.len(), 2, "{named:?}");
    stage
        .wait("the request", terminator.request_end())
        .expect("asked");
    // Nobody is forced: what is not asked does not end.
    let gone = stage.wait("the end", terminator.gone()).expect("proof");
    assert!(gone.swept_count <= 1, "{gone:?}");
    stage.nobody_is_left();
}

extern "C" fn exit_thread(_: libc::c_int) {
    // SAFETY: exit(2) of the thread that was interrupted; what it holds stays allocated for ever.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// Ends the first thread of this process, which waits for this one.
pub(crate) fn end_first_thread() {
    let own: Pid = getpid();
    // SAFETY: the handler makes one system call.
    unsafe { signal(Signal::SIGUSR1, SigHandler::Handler(exit_thread)) }.unwrap();
    // SAFETY: takes numbers only.
    let sent =
        unsafe { libc::syscall(libc::SYS_tgkill, own.as_raw(), own.as_raw(), libc::SIGUSR1) };
    assert_eq!(sent, 0);
    wait_for_state(own, 'Z');
}

#[test]
fn what_a_host_without_first_thread_leaves_is_ended() {
    perform("headless::host_is_killed");
}

#[test]
#[ignore = "a role"]
fn host_is_killed() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let shapes = ["ignore-eof-term", "double-fork"];
    let mut host = start_host_with(&stage, &shapes, false, &[(HEADLESS, String::new())]);
    let servers = launched(&mut host);
    for role in ["server", "server", "daemon"] {
        stage.wait_for(role);
    }
    assert_eq!(ledgers(), 1);
    if has_cgroups() {
        assert_eq!(leaves().len(), shapes.len(), "{:?}", leaves());
    }
    kill_with_guardians(host, &servers);
    ends_all(&stage);
}
