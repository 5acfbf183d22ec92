//! How a shim ends its server. Pure: no system call, no clock of its own; the tests of the crate include this file by path.
//!
//! The host of a shim is a program that knows nothing of ladders, so this one is climbed here. No rung is gone back.

/// The time that descendants may outlive the server's own process before they are asked to end.
const STRAGGLERS: u64 = 50_000_000;
/// Before a request that the guardian did not take is made again.
const RETRY: u64 = 10_000_000;
/// Before the order to kill is given again: a guardian may have been stopped, or have lost it.
const AGAIN: u64 = 500_000_000;

/// How far the end of one server has come. Times are nanoseconds of any steady clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ladder {
    grace: u64,
    rung: Rung,
    /// How often the tree was asked to end, and is to be.
    asked: u32,
    wanted: u32,
    /// The guardian did not take the last request: not before this time again.
    retry: Option<u64>,
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
    /// Nothing but the proof ends this; the order is given again at that time.
    Killing {
        again: u64,
    },
}

/// Order of the shim to the guardian, now.
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
            wanted: 0,
            retry: None,
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
        self.ask(now, self.terms);
        self.order(now)
    }

    /// The host is gone.
    pub(crate) fn host_gone(&mut self, now: u64) -> Order {
        self.ask(now, 1);
        self.order(now)
    }

    /// The request was taken.
    pub(crate) fn sent(&mut self) {
        self.asked = self.wanted;
        self.retry = None;
    }

    /// The request was not taken: there is no room or no memory for it at this moment.
    pub(crate) fn refused(&mut self, now: u64) {
        self.retry = Some(now.saturating_add(RETRY));
    }

    /// So late is it.
    pub(crate) fn pass(&mut self, now: u64) -> Order {
        match self.rung {
            Rung::Told { until } if now >= until => self.ask(now, 1),
            Rung::Asked { until: due } | Rung::Killing { again: due } if now >= due => {
                self.rung = Rung::Killing {
                    again: now.saturating_add(AGAIN),
                };
                return Order::Kill;
            }
            _ => {}
        }
        self.order(now)
    }

    /// Time at which something is due even if nothing happens.
    pub(crate) fn alarm(&self) -> Option<u64> {
        let due = match self.rung {
            Rung::Running => None,
            Rung::Told { until } | Rung::Asked { until } | Rung::Killing { again: until } => {
                Some(until)
            }
        };
        match (due, self.retry) {
            (Some(due), Some(retry)) if retry < due => Some(retry),
            _ => due,
        }
    }

    /// The tree is to be asked so often, all in all.
    fn ask(&mut self, now: u64, times: u32) {
        if matches!(self.rung, Rung::Running | Rung::Told { .. }) {
            self.rung = Rung::Asked {
                until: now.saturating_add(self.grace),
            };
        }
        if self.wanted < times {
            self.wanted = times;
        }
    }

    fn order(&self, now: u64) -> Order {
        let is_patient = matches!(self.retry, Some(retry) if now < retry);
        if self.asked >= self.wanted || is_patient || matches!(self.rung, Rung::Killing { .. }) {
            return Order::Nothing;
        }
        Order::Terminate
    }
}
