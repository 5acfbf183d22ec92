//! How a shim ends its server. Pure: no system call, no clock of its own; the tests of the crate include this file by path.
//!
//! The host of a shim is a program that knows nothing of ladders, so this one is climbed here. No rung is gone back.

/// The time that descendants may outlive the server's own process before they are asked to end.
const STRAGGLERS: u64 = 50_000_000;

/// How far the end of one server has come. Times are nanoseconds of any steady clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ladder {
    grace: u64,
    rung: Rung,
    /// How often the tree was asked to end.
    asked: u32,
    /// How often the host has sent SIGTERM.
    terms: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rung {
    Running,
    /// The server was told that it is to end, by the end of its input or by SIGINT.
    Told {
        until: u64,
    },
    /// The tree was asked to end.
    Asked {
        until: u64,
    },
    Killing,
}

/// What the shim is to tell the guardian, now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Nothing,
    Terminate,
    Kill,
}

impl Ladder {
    pub(crate) const fn new(grace: u64) -> Self {
        Self {
            grace,
            rung: Rung::Running,
            asked: 0,
            terms: 0,
        }
    }

    /// The server has seen the end of its input, or was sent SIGINT.
    pub(crate) fn told(&mut self, now: u64) {
        if matches!(self.rung, Rung::Running) {
            self.rung = Rung::Told {
                until: now.saturating_add(self.grace),
            };
        }
    }

    /// The server's own process has exited.
    pub(crate) fn main_exited(&mut self, now: u64) {
        let soon = now.saturating_add(STRAGGLERS);
        self.rung = match self.rung {
            Rung::Running => Rung::Told { until: soon },
            Rung::Told { until } => Rung::Told {
                until: if until < soon { until } else { soon },
            },
            later => later,
        };
    }

    /// The host has sent SIGTERM. The tree gets as many as the host sends, and not one more because it was asked before.
    pub(crate) fn terminated(&mut self, now: u64) -> Order {
        self.terms = self.terms.saturating_add(1);
        self.ask(now);
        self.order(self.terms)
    }

    /// The host is gone.
    pub(crate) fn host_gone(&mut self, now: u64) -> Order {
        self.ask(now);
        self.order(1)
    }

    /// So late is it.
    pub(crate) fn pass(&mut self, now: u64) -> Order {
        match self.rung {
            Rung::Told { until } if now >= until => {
                self.ask(now);
                self.order(1)
            }
            Rung::Asked { until } if now >= until => {
                self.rung = Rung::Killing;
                Order::Kill
            }
            _ => Order::Nothing,
        }
    }

    /// When something is due even if nothing happens.
    pub(crate) fn alarm(&self) -> Option<u64> {
        match self.rung {
            Rung::Running | Rung::Killing => None,
            Rung::Told { until } | Rung::Asked { until } => Some(until),
        }
    }

    fn ask(&mut self, now: u64) {
        if matches!(self.rung, Rung::Running | Rung::Told { .. }) {
            self.rung = Rung::Asked {
                until: now.saturating_add(self.grace),
            };
        }
    }

    /// To ask, if that was done less often.
    fn order(&mut self, times: u32) -> Order {
        if self.asked >= times || matches!(self.rung, Rung::Killing) {
            return Order::Nothing;
        }
        self.asked = times;
        Order::Terminate
    }
}
