//! Fits the graces of a termination into the time there is.

use std::time::Duration;

use crate::terminate::policy::TerminationPolicy;

/// The policy with every wait shortened alike, so that the longest termination
/// takes no longer than `limit`. None counts for more than `limit`, so that an endless
/// grace leaves time to the others. A policy that fits is left as it is.
pub(super) fn fit(policy: TerminationPolicy, limit: Duration) -> TerminationPolicy {
    let longest = policy.longest();
    if longest <= limit {
        return policy;
    }
    // The proof is what the rest is for: it keeps up to a third.
    let confirmation = policy.kill_confirmation.min(limit / 3);
    let mut fitted = policy;
    let graces = [
        fitted.drain,
        fitted.flush,
        fitted.eof_grace,
        fitted.straggler_grace,
        fitted.term_grace,
        fitted.report_limit,
    ];
    let clamp = |wait: Duration| wait.min(limit);
    let graces: f64 = graces.map(|wait| clamp(wait).as_secs_f64()).iter().sum();
    let share = match graces > 0.0 {
        true => (limit - confirmation).as_secs_f64() / graces,
        false => 0.0,
    };
    let scale = |wait| clamp(wait).mul_f64(share);
    fitted.drain = scale(fitted.drain);
    fitted.flush = scale(fitted.flush);
    fitted.eof_grace = scale(fitted.eof_grace);
    fitted.straggler_grace = scale(fitted.straggler_grace);
    fitted.term_grace = scale(fitted.term_grace);
    fitted.report_limit = scale(fitted.report_limit);
    fitted.kill_confirmation = confirmation;
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_shortened_only_as_far_as_needed() {
        let policy = TerminationPolicy::new().with_drain(Duration::from_secs(10));
        assert_eq!(fit(policy.clone(), Duration::from_secs(60)), policy);
        let limit = Duration::from_secs(3);
        let fitted = fit(policy, limit);
        assert!(
            fitted.longest() <= limit + Duration::from_micros(1),
            "{fitted:?}"
        );
        assert_eq!(fitted.kill_confirmation, Duration::from_secs(1));
        assert!(fitted.drain > fitted.eof_grace);
        let mut endless = TerminationPolicy::new().with_drain(Duration::MAX);
        endless.eof_grace = Duration::MAX;
        let fitted = fit(endless, limit);
        assert!(fitted.longest() <= limit + Duration::from_micros(1));
        assert!(fitted.eof_grace > Duration::from_millis(500), "{fitted:?}");
        assert!(
            fitted.report_limit > Duration::from_millis(100),
            "{fitted:?}"
        );
        let none = fit(TerminationPolicy::immediate(), Duration::ZERO);
        assert_eq!(none.longest(), Duration::ZERO);
    }
}
