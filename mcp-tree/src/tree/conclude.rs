//! From the guardian's reports to the proof: carries the reports and the end of the guardian to the
//! [conclusion](crate::conclusion), and does what it asks for, on the watcher's thread, the search's,
//! or a retrying caller's.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus as WaitStatus;
use std::sync::Arc;

use mcp_lifecycle_core::launch::{Evidence, ExitStatus, Gone, Remnant};

use super::guarded::Guarded;
use super::strays;
use crate::conclusion::decide::Main;
use crate::conclusion::{Acts, Emptied, Event, FinalReport, Holder, Inside, Next, Proof};
use crate::ending::exit_status;
use crate::program::ending::UNPROVEN;
use crate::program::protocol::{Listing, MESSAGE_MAX, Report, Stage};
use crate::program::{Received, how_it_ended};
use crate::sys;
use crate::sys::watch::Interest;

/// The reports of one pass over the socket.
#[derive(Default)]
struct Heard {
    exit: Option<ExitStatus>,
    gone: Option<Gone>,
    /// The guardian has removed the cgroup, if there was one.
    emptied: bool,
    failed: Option<(Stage, i32)>,
}

const NOT_EMPTIED: &str = "the server's cgroup could not be emptied";

impl Guarded {
    /// Watches for the guardian's reports and its end. After an error, nothing is watched.
    pub(super) fn watch(self: &Arc<Self>) -> io::Result<()> {
        let [socket, process] = self.guardian.descriptors();
        let (hears, ends) = (Arc::clone(self), Arc::clone(self));
        let exit = sys::watch::readable(process, move || ends.guardian_exited())?;
        let heard = sys::watch::readable(socket, move || hears.hear());
        heard.map(drop).inspect_err(|_| exit.forget())
    }

    fn hear(self: &Arc<Self>) -> Interest {
        let mut buffer = [0; MESSAGE_MAX];
        let mut heard = Heard::default();
        let interest = loop {
            match self.guardian.receive(&mut buffer) {
                Ok(Received::Report(report)) => {
                    self.take(report, &mut heard);
                    if heard.gone.is_some() {
                        break Interest::Done;
                    }
                }
                Ok(Received::Nothing) => break Interest::More,
                // The exit of the guardian triggers the rest.
                Ok(Received::Closed) => break Interest::Done,
                Err(error) => {
                    let guardian = self.guardian.pid();
                    crate::logged!(warn, guardian, %error, "unusable report");
                    // An invalid report is skipped; one that could not be received is still queued.
                    if error.kind() != io::ErrorKind::InvalidData {
                        break Interest::More;
                    }
                }
            }
        };
        let Some(gone) = heard.gone else {
            self.ending.publish(heard.exit, None);
            return interest;
        };
        // Published now: a cgroup that cannot be removed is not why the start failed.
        if let Some(failed) = heard.failed {
            self.settle_start(Err(failed));
        }
        self.advance(Event::Reported(FinalReport {
            exit: heard.exit,
            gone,
            emptied: heard.emptied,
            executed: heard.failed.is_none(),
        }));
        // The guardian's exit follows.
        Interest::Done
    }

    fn take(&self, report: Report<'_>, heard: &mut Heard) {
        match report {
            Report::Started { pid } => self.note_start(pid),
            Report::ExecFailed { stage, errno } => {
                heard.failed = Some((stage, errno));
                heard.gone = Some(Gone::proven_by(Evidence::Reaped));
            }
            Report::MainExited { status } => {
                heard.exit = Some(exit_status(WaitStatus::from_raw(status).into()))
            }
            // Only sent where there is no server.
            Report::Adopted { .. } => {}
            Report::Gone {
                status,
                flags,
                swept,
            } => {
                heard.emptied = flags & UNPROVEN == 0;
                heard.exit = Some(exit_status(WaitStatus::from_raw(status).into()));
                heard.gone = Some(account(&swept));
            }
        }
    }

    /// Handles the end of the guardian, a zombie now; the first caller counts.
    pub(super) fn guardian_exited(self: &Arc<Self>) -> Interest {
        let mut is_first = false;
        let how = self.guardian_end.get_or_init(|| {
            is_first = true;
            self.reap_guardian()
        });
        if !is_first {
            return Interest::Done;
        }
        // Its final report may still be in the socket.
        if !self.conclusion.lock().has_begun() {
            self.hear();
        }
        if !self.conclusion.lock().has_begun() {
            let guardian = self.guardian.pid();
            crate::logged!(warn, guardian, "a guardian {how} without a report");
        }
        self.advance(Event::GuardianEnded(how.clone()));
        Interest::Done
    }

    fn reap_guardian(&self) -> String {
        let mut reap = self.reap.lock();
        let reaped = match reap.take() {
            Some(reap) => reap(),
            None => self.guardian.try_reap(),
        };
        let guardian = self.guardian.pid();
        match &reaped {
            Ok(Some(_)) => {}
            // It stays a zombie for as long as the tracer likes.
            Ok(None) => crate::logged!(
                warn,
                guardian,
                "a guardian has ended and is held by a tracer: it stays a zombie until that \
                     lets go"
            ),
            Err(error) => {
                crate::logged!(debug, %error, "the guardian was reaped by another part of the host")
            }
        }
        how_it_ended(&reaped)
    }

    pub(super) fn advance(self: &Arc<Self>, event: Event) {
        // No lock is held while wakers, foreign code, run.
        let Acts { exit, proof, next } = self.conclusion.lock().on(event);
        let is_proven = matches!(proof, Some(Proof::Gone(_)));
        if let (Some(program), Some(Proof::Gone(gone))) = (self.program.get(), &proof) {
            let (pid, swept, proof) = (self.main_pid(), gone.swept_count, &gone.evidence);
            crate::logged!(info, program, pid, ?exit, swept, ?proof, "tree ended");
        }
        if let Some(Proof::Lost(why)) = &proof {
            crate::logged!(error, guardian = self.guardian.pid(), "{why}");
        }
        self.ending.publish(exit, proof);
        if is_proven {
            self.strike_out();
        }
        match next {
            Some(Next::Empty { exit, emptied }) => self.empty(exit, emptied),
            Some(Next::TakeOver) => self.take_over(),
            Some(Next::Search { everywhere }) => strays::end(self, everywhere),
            Some(Next::AwaitGuardian(exit)) => self.await_guardian(exit),
            None => {}
        }
    }

    /// Reaps a guardian that has ended, as it mostly has: exit and proof are then published at
    /// once.
    fn await_guardian(self: &Arc<Self>, exit: Option<ExitStatus>) {
        if self.is_guardian_over() {
            self.guardian_exited();
        }
        self.ending.publish(exit, None);
        self.strike_out();
    }

    /// Empties the cgroup of a guardian that has reaped all descendants.
    fn empty(self: &Arc<Self>, exit: Option<ExitStatus>, emptied: bool) {
        let Ok(leaf) = &self.leaf else {
            return self.empty_cgroup(Main::Ended, Inside::default());
        };
        // The guardian may have rights that the host has given up since.
        if emptied {
            leaf.abandon();
        }
        if emptied || leaf.remove_empty() {
            return self.advance(Event::Emptied(Emptied {
                main: Main::Ended,
                holder: Holder::Empty(Evidence::CgroupEmpty),
                inside: Inside::default(),
            }));
        }
        // An orphan in a foreign PID namespace is no descendant of the guardian's, but it is
        // inside.
        let inside = self.kill_members(leaf);
        self.ending.publish(exit, None);
        self.empty_cgroup(Main::Ended, inside);
    }

    pub(super) fn empty_cgroup(self: &Arc<Self>, main: Main, inside: Inside) {
        let server = Arc::clone(self);
        let done = move |holder| {
            server.advance(Event::Emptied(Emptied {
                main,
                holder,
                inside,
            }));
        };
        match &self.leaf {
            Err(_) => done(Holder::None),
            Ok(leaf) => leaf.end(move |removed| {
                done(match removed {
                    Ok(()) => Holder::Empty(Evidence::CgroupEmpty),
                    Err(error) => Holder::Failed(format!("{NOT_EMPTIED}: {error}")),
                });
            }),
        }
    }

    fn strike_out(&self) {
        if let Some(entry) = self.entry.lock().take() {
            entry.end();
        }
    }
}

/// Returns the proof by a final report, with the processes that had to be ended.
fn account(swept: &Listing<'_>) -> Gone {
    let named = swept
        .processes()
        .map(|(pid, name)| Remnant::process(pid, String::from_utf8_lossy(name)));
    let mut gone = Gone::proven_by(Evidence::Reaped).swept(named);
    gone.swept_count = swept.total() as usize;
    gone
}
