//! The ladder by which a shim ends its server, since its host has none. It is never climbed down.
//! Pure.

/// Pause before a request that the guardian did not accept is repeated.
const RETRY: u64 = 10_000_000;
/// Pause before a kill order is repeated: a guardian may have been stopped or have lost it.
const AGAIN: u64 = 500_000_000;

/// Progress of one server's end. Times are nanoseconds of any steady clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    grace: u64,
    /// Grace of descendants after the server's own process, before SIGTERM.
    straggler_grace: u64,
    rung: Rung,
    /// Number of SIGTERMs sent and wanted.
    asked: u32,
    wanted: u32,
    retry: Option<u64>,
    terms: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rung {
    Running,
    /// The server was notified, by the end of its input or by SIGINT.
    Told {
        until: u64,
    },
    Asked {
        until: u64,
    },
    /// Killing until the end is proven; the order is repeated at this time.
    Killing {
        again: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Nothing,
    Terminate,
    Kill,
}

impl Ladder {
    pub const fn new(grace: u64, straggler_grace: u64) -> Self {
        Self {
            grace,
            straggler_grace,
            rung: Rung::Running,
            asked: 0,
            wanted: 0,
            retry: None,
            terms: 0,
        }
    }

    /// Notes that the server's input has ended, or that it got SIGINT.
    pub fn told(&mut self, now: u64) {
        if matches!(self.rung, Rung::Running) {
            self.rung = Rung::Told {
                until: now.saturating_add(self.grace),
            };
        }
    }

    pub fn main_exited(&mut self, now: u64) {
        let soon = now.saturating_add(self.straggler_grace);
        self.rung = match self.rung {
            Rung::Running => Rung::Told { until: soon },
            Rung::Told { until } => Rung::Told {
                until: if until < soon { until } else { soon },
            },
            later => later,
        };
    }

    /// Notes a SIGTERM of the host. The tree gets as many as the host sends, and no extra one.
    pub fn terminated(&mut self, now: u64) -> Order {
        self.terms = self.terms.saturating_add(1);
        self.ask(now, self.terms);
        self.order(now)
    }

    pub fn host_gone(&mut self, now: u64) -> Order {
        self.ask(now, 1);
        self.order(now)
    }

    pub fn sent(&mut self) {
        self.asked = self.wanted;
        self.retry = None;
    }

    /// Notes that there was no room or memory for a request.
    pub fn refused(&mut self, now: u64) {
        self.retry = Some(now.saturating_add(RETRY));
    }

    pub fn pass(&mut self, now: u64) -> Order {
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

    pub fn alarm(&self) -> Option<u64> {
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

    /// Sets the total number of SIGTERMs for the tree.
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
