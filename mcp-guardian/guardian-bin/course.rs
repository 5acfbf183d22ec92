//! Decides a guardian's next step by state and event. Pure; the tests include this file by path.
//!
//! While the host lives, no timer ends anything. When it is gone there is one grace, if it has set
//! one. Rounds of killing stop only when nothing is left.

/// Pause for the first signals to take effect.
const FIRST_PAUSE: u64 = 500_000;
/// Pause between effective rounds: short, so that a colony cannot re-create its members.
const BUSY_PAUSE: u64 = 1_000_000;
/// Pause between ineffective rounds: what is left cannot be killed now, and must not cost a core.
const IDLE_PAUSE: u64 = 100_000_000;

/// Progress of one server's end. Times are nanoseconds of any steady clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Course {
    phase: Phase,
    /// Something was signalled, so processes reaped from now on count as swept.
    sweeping: bool,
    asked: bool,
    forced: bool,
    orphaned: bool,
    /// The first wait status of the main process, if it has ended.
    exit: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    /// The host is gone; its descendants may end by themselves until this time.
    Orphaned {
        until: u64,
    },
    Killing(Killing),
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Killing {
    /// Time of the next round, unless all that were reached are reaped before.
    next: u64,
    pause: u64,
    /// Number of processes reached in the last round and not reaped yet; `None` if it reached none.
    outstanding: Option<usize>,
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

    /// Notes the host's request. The caller sends SIGTERM now.
    pub(crate) fn ask(&mut self) {
        self.sweeping = true;
        self.asked = true;
    }

    /// Returns whether the caller sends SIGTERM now: never twice, as a second one means "at once" to
    /// many programs.
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

    pub(crate) fn pass(&mut self, now: u64) {
        if matches!(self.phase, Phase::Orphaned { until } if now >= until) {
            self.kill();
        }
    }

    /// Starts killing, on request or without a host. This never stops before the end.
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

    pub(crate) fn reaped(&mut self) {
        if let Phase::Killing(killing) = &mut self.phase {
            killing.progress = true;
            killing.outstanding = killing.outstanding.map(|left| left.saturating_sub(1));
        }
    }

    /// Notes the end of the main process. Returns whether that is new.
    pub(crate) fn main_exited(&mut self, status: i32) -> bool {
        let news = self.exit.is_none();
        self.exit = self.exit.or(Some(status));
        news
    }

    pub(crate) fn none_is_left(&mut self) -> bool {
        let news = !self.is_done();
        self.phase = Phase::Done;
        news
    }

    pub(crate) fn is_round_due(&self, now: u64) -> bool {
        match &self.phase {
            Phase::Killing(killing) => killing.outstanding == Some(0) || now >= killing.next,
            Phase::Waiting | Phase::Orphaned { .. } | Phase::Done => false,
        }
    }

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

    /// Returns `asked`, `forced` and `orphaned`.
    pub(crate) fn means(&self) -> [bool; 3] {
        [self.asked, self.forced, self.orphaned]
    }

    pub(crate) fn is_sweeping(&self) -> bool {
        self.sweeping
    }

    /// Returns the wait status of the main process; 0 before it has ended.
    pub(crate) fn status(&self) -> i32 {
        match self.exit {
            Some(status) => status,
            None => 0,
        }
    }
}
