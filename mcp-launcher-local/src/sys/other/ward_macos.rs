//! The server of a guardian on macOS: its parent starts it, sees who descends from it, and ends all of them. Unmeasured:
//! compiled, and run on no machine of ours.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use mcp_lifecycle_core::launch::ExitStatus;
use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};
use nix::sys::signal::{self, kill};
use nix::sys::time::TimeSpec;
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::super::{Pid, Signal, unix};
use super::spawn::{Start, start};
use super::xnu::Xnu;
use super::{facts, ids, no_event, wait};
use crate::lineage::Lineage;

/// A child of ours, suspended at first, and whoever descends from it.
#[derive(Debug)]
pub(crate) struct Ward {
    server: Pid,
    notes: &'static Kqueue,
    lineage: Lineage,
    system: Xnu,
    /// Who was found besides the server when it had to be ended.
    swept: BTreeMap<Pid, String>,
}

/// Why there is no server.
#[derive(Debug)]
pub(crate) enum NoWard {
    NotExecuted(io::Error),
    NotWatched(io::Error),
}

impl Ward {
    /// Starts a server with the three standard streams of this process, which then has others. It is suspended, and watched.
    /// What comes from `host` wakes up as well.
    pub(crate) fn begin(
        program: &Start<'_>,
        identity: Option<String>,
        host: BorrowedFd<'_>,
    ) -> Result<Self, NoWard> {
        let prepared = || {
            let nothing = File::options().read(true).write(true).open("/dev/null")?;
            let notes: &'static Kqueue = Box::leak(Box::new(Kqueue::new()?));
            let host = host.as_raw_fd().unsigned_abs() as usize;
            // Comes when the server can be asked how it has ended, which a note of its exit may come before.
            let child = signal::SIGCHLD as usize;
            let heard = [
                heard(host, EventFilter::EVFILT_READ),
                heard(child, EventFilter::EVFILT_SIGNAL),
            ];
            notes.kevent(&heard, &mut [], None)?;
            Ok((nothing, notes))
        };
        let (nothing, notes) = prepared().map_err(NoWard::NotWatched)?;
        let server = start(program).map_err(NoWard::NotExecuted)?;
        let watched = || {
            let seen = ids::seen(server)?.ok_or(io::ErrorKind::NotFound)?;
            let what = FilterFlag::NOTE_FORK | FilterFlag::NOTE_EXIT;
            let mut ward = Self {
                server,
                notes,
                lineage: Lineage::of(seen),
                system: Xnu::new(notes, server, identity, what),
                swept: BTreeMap::new(),
            };
            ward.look()?;
            // Else nobody would see the end of the server's input and output.
            dup2_stdin(&nothing)?;
            dup2_stdout(&nothing)?;
            dup2_stderr(&nothing)?;
            Ok(ward)
        };
        watched().map_err(|error| {
            // It has executed nothing, and does not: but one that is suspended may have to go on to end.
            let _ = kill(server.raw(), signal::SIGKILL);
            let _ = kill(server.raw(), signal::SIGCONT);
            super::reap_within(server, Duration::from_secs(1));
            NoWard::NotWatched(error)
        })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.server
    }

    /// Lets the server begin.
    pub(crate) fn resume(&self) {
        let _ = kill(self.server.raw(), signal::SIGCONT);
    }

    /// Waits for a note, or for the host; returns whether there was one.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> io::Result<bool> {
        let limit = limit.map(|limit| *TimeSpec::from(limit).as_ref());
        let mut events = [no_event(); 64];
        match self.notes.kevent(&[], &mut events, limit) {
            Ok(count) => Ok(count > 0),
            Err(nix::errno::Errno::EINTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    /// How the server has ended; it stays a zombie.
    pub(crate) fn peek(&self) -> Option<ExitStatus> {
        wait::peek(self.server).unwrap_or(Some(ExitStatus::Unknown))
    }

    /// Looks, and returns how many live.
    pub(crate) fn look(&mut self) -> io::Result<usize> {
        self.lineage.tend(&mut self.system)?;
        self.living()
    }

    /// SIGTERM for everybody.
    pub(crate) fn ask_to_end(&mut self) -> io::Result<()> {
        unix::signal_group(self.server, Signal::Terminate)?;
        self.lineage
            .ask_to_end(&mut self.system, self.server.as_u32())
    }

    /// SIGKILL for everybody; returns how many live, to be called again until nobody does.
    pub(crate) fn hunt(&mut self) -> io::Result<usize> {
        self.note_swept();
        let looked = self.lineage.end(&mut self.system);
        self.note_swept();
        unix::signal_group(self.server, Signal::Kill)?;
        // One that was never resumed may have to go on to end.
        let _ = kill(self.server.raw(), signal::SIGCONT);
        looked?;
        self.living()
    }

    /// Those besides the server who had to be ended.
    pub(crate) fn swept(&self) -> Vec<(u32, String)> {
        let swept = self.swept.iter();
        swept
            .map(|(pid, name)| (pid.as_u32(), name.clone()))
            .collect()
    }

    /// Gives the number of the server away.
    pub(crate) fn reap(&self) {
        let _ = wait::reap(self.server);
    }

    fn living(&self) -> io::Result<usize> {
        let is_known = |pid| self.lineage.living().any(|member| member.pid == pid);
        let group = facts::members_of_group(self.server)?;
        let besides = group.iter().filter(|member| !is_known(member.pid)).count();
        Ok(self.lineage.living().count() + besides)
    }

    fn note_swept(&mut self) {
        let besides = self.lineage.living().map(|member| member.pid);
        for pid in besides.filter(|pid| *pid != self.server) {
            let known = self.swept.entry(pid);
            known.or_insert_with(|| facts::member(pid).name);
        }
    }
}

fn heard(what: usize, filter: EventFilter) -> KEvent {
    let flags = EvFlags::EV_ADD | EvFlags::EV_CLEAR;
    KEvent::new(what, filter, flags, FilterFlag::empty(), 0, 0)
}
