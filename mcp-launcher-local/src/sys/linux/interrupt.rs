//! SIGINT to a process group that is not a child's.

use std::io;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};

use super::super::Pid;
use super::pidfd::{group_flag_works, hold, is_refusal, pidfd_signal_group};

/// Interrupts the group that a process leads, if the process `is_meant`. That is asked while the
/// process is held, and the group is signalled through what holds it: where the process has
/// ended meanwhile and another one has got its number, nobody is interrupted, and that is no
/// error.
///
/// Before Linux 6.9, and where no process can be held, the group is signalled by its number,
/// right after it was asked.
///
/// # Errors
///
/// The error of `is_meant`, or of the signal.
pub fn interrupt_group(pid: u32, is_meant: impl FnOnce() -> io::Result<bool>) -> io::Result<()> {
    let leader = Pid::new(pid.into()).ok_or(io::ErrorKind::InvalidInput)?;
    let held = match hold(leader) {
        Ok(held) => Some(held),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
        Err(error) if is_refusal(&error) => None,
        Err(error) => return Err(error),
    };
    if !is_meant()? {
        return Ok(());
    }
    let sent = match held.filter(|_| group_flag_works()) {
        Some(held) => pidfd_signal_group(&held, libc::SIGINT),
        None => killpg(leader.raw(), Signal::SIGINT),
    };
    match sent {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command, Stdio};

    use nix::sys::signal::{SigHandler, signal};

    use super::*;

    /// The number that was given last: the next process gets the next one. Root chooses it.
    const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";

    /// The leader of a group of its own, which ends with its input, or by SIGINT, also where these
    /// tests ignore that, as what a script starts in the background does.
    fn leader() -> Child {
        let mut command = Command::new("/bin/cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        // SAFETY: one async-signal-safe call.
        let by_default = || unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) }.map(drop);
        // SAFETY: the closure makes one system call, and has nothing of this process's.
        unsafe { command.pre_exec(move || by_default().map_err(io::Error::from)) };
        command.process_group(0).spawn().unwrap()
    }

    /// What has ended it, once its input has.
    fn end(mut child: Child) -> Option<i32> {
        drop(child.stdin.take());
        child.wait().unwrap().signal()
    }

    #[test]
    fn only_one_that_is_meant_is_interrupted() {
        for is_meant in [false, true] {
            let child = leader();
            interrupt_group(child.id(), || Ok(is_meant)).unwrap();
            assert_eq!(end(child), is_meant.then_some(libc::SIGINT));
        }
    }

    /// Another process that leads a group and has this number, unless somebody else has it.
    fn successor(pid: u32) -> Option<Child> {
        for _ in 0..100 {
            std::fs::write(LAST_PID, (pid - 1).to_string()).unwrap();
            let child = leader();
            if child.id() == pid {
                return Some(child);
            }
            assert_eq!(end(child), None);
        }
        None
    }

    /// The process ends right after it was found to be the one that is meant.
    #[test]
    fn whoever_gets_the_number_of_one_that_was_meant_is_left_alone() {
        let mut status = "nobody else got its number".to_owned();
        if !group_flag_works() {
            println!("NOT RUN: this kernel signals groups by number alone");
            return;
        }
        let last = std::fs::read(LAST_PID).unwrap();
        if let Err(error) = std::fs::write(LAST_PID, last) {
            println!("NOT RUN: the number of a process cannot be chosen: {error}");
            return;
        }
        for _ in 0..100 {
            let child = leader();
            let (pid, mut another) = (child.id(), None);
            let outcome = interrupt_group(pid, || {
                assert_eq!(end(child), None);
                another = successor(pid);
                Ok(true)
            });
            outcome.unwrap();
            if let Some(another) = another {
                status = format!("{:?}", end(another));
                break;
            }
        }
        assert_eq!(status, "None", "a stranger was interrupted");
    }
}
