//! The content of `/proc/PID/stat`.

use std::io;
use std::path::Path;

// The guardian's, which has no crate of its own to be shared in.
#[path = "../../guardian-bin/stat.rs"]
mod text;

/// The fields of `/proc/PID/stat` (proc_pid_stat(5)).
pub(crate) struct Stat {
    pub(crate) name: String,
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// 0 where its leader is not in a PID namespace that is visible.
    pub(crate) session: u32,
    pub(crate) start_time: u64,
    text: text::Stat,
    environment_end: u64,
}

/// A thread of the kernel's own (`PF_KTHREAD` in Linux).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// `PF_EXITING` in Linux.
const ENDING: u64 = 0x4;

impl Stat {
    /// Reads it; `None` if there is no such process any more.
    pub(crate) fn read(pid: u32) -> io::Result<Option<Self>> {
        Self::read_in(Path::new(&format!("/proc/{pid}")))
    }

    /// Reads that of the process, or thread, with this directory in `/proc`.
    pub(crate) fn read_in(directory: &Path) -> io::Result<Option<Self>> {
        match super::bytes_of(directory.join("stat")) {
            Ok(stat) => Self::parse(&stat)
                .map(Some)
                .ok_or_else(|| io::Error::other("its /proc/PID/stat is not understood")),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether all of it has ended. The state is that of the first thread: a
    /// zombie whose other threads are still on their way out holds its files,
    /// and may even go on for ever.
    pub(crate) fn is_dead(&self) -> bool {
        self.text.is_dead()
    }

    /// Returns whether all of it is on its way out, from where there is no way back.
    pub(crate) fn is_exiting(&self) -> bool {
        self.text.is_exiting()
    }

    /// Returns whether its first thread is on its way out, or gone.
    pub(crate) fn is_ending(&self) -> bool {
        self.text.flags & ENDING != 0 || matches!(self.state, 'Z' | 'X')
    }

    /// Returns whether it was stopped, by a signal or by whoever traces it.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Returns whether it is a thread of the kernel's own.
    pub(crate) fn is_kernel(&self) -> bool {
        self.text.flags & KERNEL_THREAD != 0
    }

    /// Returns whether its first thread has an environment, which may be empty: not
    /// before it executes, nor once it has ended. Only of a process that we may
    /// read.
    pub(crate) fn has_environment(&self) -> bool {
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

/// Returns whether this error of opening or reading a file of `/proc/PID` says that the
/// process is not there any more.
pub(crate) fn is_gone(error: &io::Error) -> bool {
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
