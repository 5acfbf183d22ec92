//! The content of `/proc/PID/stat`.

use std::io;
use std::path::Path;

// The guardian's parser, included by path, as there is no crate to share it in.
#[path = "../../guardian-bin/stat.rs"]
mod text;

/// The fields of `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Debug)]
pub struct Stat {
    pub name: String,
    pub state: char,
    pub parent: u32,
    pub group: u32,
    /// The session's id; 0 where its leader is in a PID namespace that is not visible.
    pub session: u32,
    pub start_time: u64,
    text: text::Stat,
    environment_end: u64,
}

/// The flag of a kernel thread (`PF_KTHREAD` in Linux).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// `PF_EXITING` in Linux.
const ENDING: u64 = 0x4;

impl Stat {
    /// Reads that of a process; `None` if the process has gone.
    ///
    /// # Errors
    ///
    /// It cannot be read, or the `/proc` here is that of another PID namespace.
    pub fn read(pid: u32) -> io::Result<Option<Self>> {
        Self::of(super::bytes_of_process(pid, "stat"))
    }

    /// Reads that of the process, or thread, with this directory in `/proc`.
    pub fn read_in(directory: &Path) -> io::Result<Option<Self>> {
        Self::of(super::bytes_of(directory.join("stat")))
    }

    fn of(content: io::Result<Vec<u8>>) -> io::Result<Option<Self>> {
        match content {
            Ok(stat) => Self::parse(&stat)
                .map(Some)
                .ok_or_else(|| io::Error::other("its /proc/PID/stat is not understood")),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether all threads have ended. The state is that of the first thread: a zombie with
    /// other threads that are still exiting holds its files, and may even run for ever.
    pub fn is_dead(&self) -> bool {
        self.text.is_dead()
    }

    /// Returns whether all threads are exiting, which cannot be undone.
    pub fn is_exiting(&self) -> bool {
        self.text.is_exiting()
    }

    /// Returns whether its first thread is exiting, or has ended.
    pub fn is_ending(&self) -> bool {
        self.text.flags & ENDING != 0 || matches!(self.state, 'Z' | 'X')
    }

    /// Returns whether it was stopped, by a signal or by its tracer.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Returns whether it is a kernel thread.
    pub fn is_kernel(&self) -> bool {
        self.text.flags & KERNEL_THREAD != 0
    }

    /// Returns whether its first thread has an environment, which may be empty: not before it
    /// executes, nor once it has ended. Valid only for a process that we may read.
    pub fn has_environment(&self) -> bool {
        self.environment_end != 0
    }

    fn parse(stat: &[u8]) -> Option<Self> {
        let text = text::Stat::parse(stat)?;
        let name = text.comm.split(|&byte| byte == 0).next();
        let after = stat.rsplit(|&byte| byte == b')').next()?;
        let mut fields = after
            .split(u8::is_ascii_whitespace)
            .filter(|field| !field.is_empty());
        let session = fields.clone().nth(6 - 3).and_then(text::number);
        Some(Self {
            name: String::from_utf8_lossy(name.unwrap_or_default()).into_owned(),
            state: char::from(text.state),
            parent: text.parent,
            group: text.group,
            session: session.and_then(|it| it.try_into().ok()).unwrap_or(0),
            start_time: text.started,
            // The first one after the name is field 3.
            environment_end: fields.nth(51 - 3).and_then(text::number).unwrap_or(0),
            text,
        })
    }
}

/// Returns whether this error of opening or reading a file of `/proc/PID` means that the process
/// has gone.
pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zombie_whose_threads_live_is_not_dead() {
        let stat = |state, threads| {
            let stat = format!("42 (x) {state} 1 40 40 0 -1 0 1 2 3 4 5 6 7 8 20 0 {threads} 0 9");
            Stat::parse(stat.as_bytes()).unwrap()
        };
        assert!(stat('Z', 1).is_dead());
        assert!(stat('X', 0).is_dead());
        assert!(!stat('Z', 2).is_dead());
        assert!(!stat('S', 1).is_dead());
        assert!(stat('T', 1).is_stopped());
        assert!(stat('Z', 2).is_ending() && !stat('S', 2).is_ending());
    }

    #[test]
    fn one_that_is_reaped_while_it_is_read_is_dead() {
        let stat = b"42 (x) X 0 -1 -1 0 -1 4 0 0 0 0 0 0 0 0 20 0 0 0 9 0 0";
        let stat = Stat::parse(stat).unwrap();
        assert!(stat.is_dead());
        assert_eq!((stat.parent, stat.group), (0, 0));
    }

    #[test]
    fn this_process_has_an_environment_and_the_kernel_has_none() {
        let own = Stat::read(std::process::id()).unwrap().unwrap();
        assert!(own.has_environment() && !own.is_kernel(), "{}", own.name);
        assert!(Stat::read(u32::MAX).unwrap().is_none());
        match Stat::read(2).unwrap() {
            Some(second) if second.name == "kthreadd" => assert!(second.is_kernel()),
            _ => eprintln!("SKIPPED: no thread of the kernel's own is visible"),
        }
    }
}
