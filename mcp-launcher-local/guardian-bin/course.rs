//! The course of a guardian: its next step, by state and event. Pure: no system call, no clock of its own; the tests of the crate include this file by path.
//!
//! There is one clock while the host lives, and it is not here: nothing is asked to end, and nothing is killed, because time has passed. When the
//! host is gone there is one grace, if the host wanted one. The pauses below are between rounds of killing, which nothing but the end of everything ends.

/// For the first signals to take effect.
const FIRST_PAUSE: u64 = 500_000;
/// Between rounds that get somewhere: a colony that re-creates its members must not have the time to.
const BUSY_PAUSE: u64 = 1_000_000;
/// Between rounds that get nowhere: what is left cannot be killed by us, now or ever, and that shall not cost a core.
const IDLE_PAUSE: u64 = 100_000_000;

/// How far the end of one server has come. Times are nanoseconds of any steady clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Course {
    phase: Phase,
    /// Something has been signalled, so what is reaped from now on was swept.
    sweeping: bool,
    /// The tree was asked to end.
    asked: bool,
    /// The tree was to be killed.
    forced: bool,
    /// The host was gone before the end.
    orphaned: bool,
    /// How the main process has ended, if it has: the first word counts.
    exit: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing to do until something happens.
    Waiting,
    /// The host is gone, and what it left has until then to end by itself.
    Orphaned {
        until: u64,
    },
    Killing(Killing),
    /// No descendant is left.
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Killing {
    /// When to look again, if not all that were reached are reaped before.
    next: u64,
    pause: u64,
    /// Reached in the last round and not reaped yet; `None` if it reached nobody.
    outstanding: Option<usize>,
    /// Something was reaped since the last round.
    progress: bool,
}

impl Course {
    pub(crate) const fn new() -> Self {
        Self {
            phase: Phase::Waiting,
            sweeping: false,
            asked: false,
            forced: false,
            orphaned: false,
            exit: None,
        }
    }

    /// The host asks the tree to end. To be signalled by the caller, now.
    pub(crate) fn ask(&mut self) {
        self.sweeping = true;
        self.asked = true;
    }

    /// The host is gone, which gave the tree so long to end by itself. Says whether the tree is to be asked to, by the caller, now: not twice, for
    /// a second SIGTERM means "at once" to many programs.
    #[must_use]
    pub(crate) fn host_gone(&mut self, now: u64, grace: u64) -> bool {
        self.orphaned = true;
        if grace == 0 {
            self.kill();
            return false;
        }
        if !matches!(self.phase, Phase::Waiting) {
            return false;
        }
        self.phase = Phase::Orphaned {
            until: now.saturating_add(grace),
        };
        let news = !self.asked;
        self.ask();
        news
    }

    /// So late is it: a grace may be over.
    pub(crate) fn pass(&mut self, now: u64) {
        if matches!(self.phase, Phase::Orphaned { until } if now >= until) {
            self.kill();
        }
    }

    /// The host wants an end of it, or is gone. From here on there is no way back and no giving up.
    pub(crate) fn kill(&mut self) {
        self.sweeping = true;
        self.forced = true;
        if matches!(self.phase, Phase::Waiting | Phase::Orphaned { .. }) {
            self.phase = Phase::Killing(Killing {
                next: 0,
                pause: FIRST_PAUSE,
                outstanding: None,
                progress: true,
            });
        }
    }

    /// A child was reaped.
    pub(crate) fn reaped(&mut self) {
        if let Phase::Killing(killing) = &mut self.phase {
            killing.progress = true;
            killing.outstanding = killing.outstanding.map(|left| left.saturating_sub(1));
        }
    }

    /// The main process has ended. Says whether that is news.
    pub(crate) fn main_exited(&mut self, status: i32) -> bool {
        let news = self.exit.is_none();
        self.exit = self.exit.or(Some(status));
        news
    }

    /// The kernel says that there is no child. Says whether that is news.
    pub(crate) fn nobody_is_left(&mut self) -> bool {
        let news = !self.is_done();
        self.phase = Phase::Done;
        news
    }

    /// Whether a round of killing is due.
    pub(crate) fn is_round_due(&self, now: u64) -> bool {
        match &self.phase {
            Phase::Killing(killing) => killing.outstanding == Some(0) || now >= killing.next,
            Phase::Waiting | Phase::Orphaned { .. } | Phase::Done => false,
        }
    }

    /// A round of killing has reached so many children.
    pub(crate) fn round_reached(&mut self, reached: usize, now: u64) {
        let Phase::Killing(killing) = &mut self.phase else {
            return;
        };
        let longest = if killing.progress {
            BUSY_PAUSE
        } else {
            IDLE_PAUSE
        };
        killing.outstanding = Some(reached).filter(|&reached| reached > 0);
        killing.progress = false;
        killing.next = now.saturating_add(killing.pause);
        killing.pause = killing.pause.saturating_mul(2).min(longest);
    }

    /// When something is due even if nothing happens.
    pub(crate) fn alarm(&self) -> Option<u64> {
        match &self.phase {
            Phase::Waiting | Phase::Done => None,
            Phase::Orphaned { until } => Some(*until),
            Phase::Killing(killing) => Some(killing.next),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    /// Whether the tree was asked to end; whether it was to be killed; whether the host was gone.
    pub(crate) fn means(&self) -> [bool; 3] {
        [self.asked, self.forced, self.orphaned]
    }

    /// Whether what is reaped now counts as swept, unless it is the main process.
    pub(crate) fn is_sweeping(&self) -> bool {
        self.sweeping
    }

    /// The wait status of the main process; 0 before it has ended.
    pub(crate) fn status(&self) -> i32 {
        match self.exit {
            Some(status) => status,
            None => 0,
        }
    }
}
