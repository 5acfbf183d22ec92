//! Decides when a server may restart. A failed start and a death are both failures, and a handshake
//! ends no series of them: a server that dies right after it would restart for ever.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::launch::macros::settings;

/// The rules for restarts of a failed server.
///
/// By default 5 restarts in a row, after 1, 2, 4, 8 and 16 s (each up to a fifth sooner). The
/// budget is renewed after 10 minutes, or once the server has been up for a minute.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestartPolicy {
    /// The pause after the first failure. 1 s by default.
    pub initial: Duration,
    /// The longest pause. 1 minute by default.
    pub max: Duration,
    /// The uptime after which a death no longer counts as one in a series. 1 minute by default.
    pub sustained_uptime: Duration,
    /// The number of restarts in a row; `None` is unlimited, at the pace of `max`. 5 by default.
    pub max_restarts: Option<u32>,
    /// The time after which an exhausted budget is renewed; `None` means only by hand. 10 minutes
    /// by default.
    pub cooldown: Option<Duration>,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(60),
            sustained_uptime: Duration::from_secs(60),
            max_restarts: Some(5),
            cooldown: Some(Duration::from_secs(600)),
        }
    }
}

settings!(RestartPolicy {
    sustained_uptime: Duration,
    max_restarts: impl Into<Option<u32>>,
    cooldown: impl Into<Option<Duration>>,
});

impl RestartPolicy {
    /// Returns a policy without restarts.
    pub fn never() -> Self {
        Self {
            max_restarts: Some(0),
            cooldown: None,
            ..Self::default()
        }
    }

    /// Sets the first and the longest pause.
    #[must_use]
    pub fn backoff(mut self, initial: Duration, max: Duration) -> Self {
        self.initial = initial;
        self.max = max.max(initial);
        self
    }
}

pub(crate) type Time = Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The server may start again at this time.
    RetryAt(Time),
    /// The budget is used up; it is renewed at this time, if ever.
    Exhausted(Option<Time>),
}

#[derive(Debug, Clone)]
pub(crate) struct Restarts {
    policy: RestartPolicy,
    failures: u32,
    last_failure: Time,
}

impl Restarts {
    pub(crate) fn new(policy: RestartPolicy) -> Self {
        Self {
            policy,
            failures: 0,
            last_failure: Time::ZERO,
        }
    }

    pub(crate) fn set_policy(&mut self, policy: RestartPolicy) {
        self.policy = policy;
    }

    /// Records a failed start (`uptime` is `None`) or a death.
    pub(crate) fn failed(&mut self, uptime: Option<Duration>, now: Time, entropy: u64) -> Verdict {
        if uptime.is_some_and(|uptime| uptime >= self.policy.sustained_uptime) {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        self.last_failure = now;
        if self
            .policy
            .max_restarts
            .is_some_and(|max| self.failures > max)
        {
            return Verdict::Exhausted(
                self.policy
                    .cooldown
                    .map(|cooldown| now.saturating_add(cooldown)),
            );
        }
        let delay = delay(&self.policy, self.failures, entropy);
        Verdict::RetryAt(now.saturating_add(delay))
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns when the series may be forgotten unless another failure follows.
    pub(crate) fn forget_at(&self) -> Option<Time> {
        match self.failures {
            0 => Some(Time::ZERO),
            _ => Some(self.last_failure.saturating_add(self.policy.cooldown?)),
        }
    }
}

fn delay(policy: &RestartPolicy, failures: u32, entropy: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    let full = policy
        .initial
        .saturating_mul(1 << doublings)
        .min(policy.max);
    // Up to a fifth sooner, in thousandths.
    let less = u32::try_from(entropy % 201).unwrap_or_default();
    full - full / 1000 * less
}
