//! What only a guardian does at the end of a server.

use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::STUBBORN;
use crate::ends::start;
use crate::host::{Alive, Streams};

/// Requests to the guardian that a traced wrapper makes before the first step of its ladder.
fn signals_before_the_kill(shim: Pid) -> usize {
    let (mut signals, mut its_own) = (0, None);
    loop {
        ptrace::syscall(shim, its_own.take()).unwrap();
        match waitpid(shim, None).unwrap() {
            WaitStatus::PtraceSyscall(_) => {}
            WaitStatus::Stopped(_, signal) => {
                its_own = Some(signal);
                continue;
            }
            ended => panic!("{ended:?}"),
        }
        let info = ptrace::syscall_info(shim).unwrap();
        if info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
            continue;
        }
        // SAFETY: at an entry, the kernel has filled in this part.
        let entry = unsafe { info.u.entry };
        if entry.nr == libc::SYS_sendmsg as u64 {
            // The pointer to the first byte of the first `iovec` of the `msghdr`.
            let read = |at: u64| ptrace::read(shim, at as *mut _).unwrap();
            let parts = read(entry.args[1] + 16).cast_unsigned();
            let message = read(read(parts).cast_unsigned());
            match message.to_ne_bytes()[0] {
                b'S' => signals += 1,
                b'K' => return signals,
                _ => {}
            }
        }
    }
}

#[test]
fn queued_signals_do_not_hold_up_the_ladder() {
    const REAL_TIME: libc::c_int = 35;
    const QUEUED: usize = 500;
    let mut alive = Alive::new();
    let deaf = format!("trap '' {REAL_TIME}; {STUBBORN}");
    let server = start(&alive, &["--grace", "0s"], &deaf, Streams::Pipes);
    alive.ready(2);
    let shim = server.pid();
    ptrace::attach(shim).unwrap();
    waitpid(shim, None).unwrap();
    ptrace::setoptions(shim, ptrace::Options::PTRACE_O_TRACESYSGOOD).unwrap();
    for _ in 0..QUEUED {
        // SAFETY: takes numbers only; the wrapper is a child that has not been waited for.
        let queued = unsafe { libc::kill(shim.as_raw(), REAL_TIME) };
        assert_eq!(queued, 0);
    }
    server.signal(Signal::SIGTERM);
    let signals = signals_before_the_kill(shim);
    ptrace::detach(shim, None).unwrap();
    assert!(
        (1..64).contains(&signals),
        "{signals} of {QUEUED} came first"
    );
    alive.nobody_is_left();
    server.ended();
}

#[test]
fn who_gets_another_parent_while_the_tree_is_read_is_asked_all_the_same() {
    // No shell's trap, which may come just before its `read`: SIGTERM ends them, or SIGKILL far later.
    let script = r#"C='printf x >&9; read never <&8'
for n in 1 2 3; do setsid sh -c "$C" <&- & done; read line"#;
    for round in 0..200 {
        let mut alive = Alive::new();
        let mut server = start(&alive, &["--grace", "28s"], script, Streams::Pipes);
        alive.ready(3);
        // The server's own process leaves, and with SIGTERM the tree is read: at about the same time.
        server.stdin = None;
        std::thread::sleep(Duration::from_micros(round % 100 * 4));
        server.signal(Signal::SIGTERM);
        let began = Instant::now();
        server.ended();
        alive.nobody_is_left();
        assert!(
            began.elapsed() < Duration::from_secs(25),
            "round {round}: somebody was killed and not asked"
        );
    }
}
