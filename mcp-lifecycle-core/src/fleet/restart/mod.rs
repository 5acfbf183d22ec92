//! The decision when a server may start again: [`RestartPolicy`], without a clock.
//!
//! A start that fails and a process that dies are failures alike. Only an uptime
//! of [`RestartPolicy::sustained_uptime`] ends a series of failures; a completed
//! handshake does not, because a server that shakes hands and then dies would
//! reset its own budget for ever.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::client::restart::RestartPolicy;

/// Time since an origin of the driver's choice.
pub(crate) type Time = Duration;

/// The consequence of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The server may start again at this time.
    RetryAt(Time),
    /// The budget is used up; it is renewed at this time, if ever.
    Exhausted(Option<Time>),
}

/// The series of failures of one server.
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

    /// Changes the policy; the series goes on.
    pub(crate) fn set_policy(&mut self, policy: RestartPolicy) {
        self.policy = policy;
    }

    /// A start failed (`uptime` is `None`), or a process died after `uptime`.
    ///
    /// `entropy` spreads the retries of servers that failed together.
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

    /// Forgets the series: by hand, or because the cooldown is over.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// When a series of failures that nothing was added to may be forgotten.
    pub(crate) fn forget_at(&self) -> Option<Time> {
        match self.failures {
            0 => Some(Time::ZERO),
            _ => Some(self.last_failure.saturating_add(self.policy.cooldown?)),
        }
    }
}

/// The wait after the `failures`-th failure in a row.
fn delay(policy: &RestartPolicy, failures: u32, entropy: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    let full = policy
        .initial
        .saturating_mul(1 << doublings)
        .min(policy.max);
    let jitter = u64::from(policy.jitter_percent.min(100));
    // In per mille of `full`, so that a small percentage still spreads.
    let less = u32::try_from(entropy % (jitter * 10 + 1)).unwrap_or_default();
    full - full / 1000 * less
}
