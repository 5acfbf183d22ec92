//! The numbers of a restart policy.

use std::time::Duration;

use crate::launch::setters::setters;

/// The rules for starting a failed server again: how often, and how soon.
///
/// The defaults allow 5 restarts in a row, after 1, 2, 4, 8 and 16 s (each up to a
/// fifth sooner), and renew that budget after 10 minutes, or once the server has
/// been up for a minute.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestartPolicy {
    /// The wait after the first failure. 1 s by default.
    pub initial: Duration,
    /// The longest wait. 1 minute by default.
    pub max: Duration,
    /// The random part of a wait, in percent: 20 means between 80 % and all
    /// of it. 20 by default, at most 100.
    pub jitter_percent: u8,
    /// The time a process must have been ready for its death not to count as
    /// one in a series. 1 minute by default.
    pub sustained_uptime: Duration,
    /// The number of restarts in a row; `None` is without limit, at the
    /// pace of `max`. 5 by default.
    pub max_restarts: Option<u32>,
    /// The time after which a used-up budget is renewed; `None` means by hand only. 10 minutes
    /// by default.
    pub cooldown: Option<Duration>,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(60),
            jitter_percent: 20,
            sustained_uptime: Duration::from_secs(60),
            max_restarts: Some(5),
            cooldown: Some(Duration::from_secs(600)),
        }
    }
}

impl RestartPolicy {
    /// The default policy.
    pub fn new() -> Self {
        Self::default()
    }

    /// Never starts again by itself.
    pub fn never() -> Self {
        Self {
            max_restarts: Some(0),
            cooldown: None,
            ..Self::default()
        }
    }

    /// Sets the first and the longest wait.
    #[must_use]
    pub fn with_backoff(mut self, initial: Duration, max: Duration) -> Self {
        self.initial = initial;
        self.max = max.max(initial);
        self
    }

    /// Sets the random part of a wait, in percent; more than 100 is 100.
    #[must_use]
    pub fn with_jitter_percent(mut self, percent: u8) -> Self {
        self.jitter_percent = percent.min(100);
        self
    }

    setters! {
        /// Sets the uptime that ends a series of failures.
        with_sustained_uptime(sustained_uptime: Duration);
        /// Sets how many restarts in a row are allowed; `None` is without limit.
        with_max_restarts(max_restarts: impl Into<Option<u32>>);
        /// Sets when a used-up budget is renewed; `None` is by hand only.
        with_cooldown(cooldown: impl Into<Option<Duration>>);
    }
}
