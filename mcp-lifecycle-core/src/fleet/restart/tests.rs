use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn retry_at(verdict: Verdict) -> Time {
    match verdict {
        Verdict::RetryAt(at) => at,
        Verdict::Exhausted(_) => panic!("the budget is used up"),
    }
}

#[test]
fn waits_double_up_to_the_longest() {
    let policy = RestartPolicy::new().max_restarts(10);
    let mut restarts = Restarts::new(policy);
    let waits: Vec<_> = (0..8)
        .map(|_| retry_at(restarts.failed(None, Time::ZERO, 0)).as_secs())
        .collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
}

#[test]
fn a_server_that_shakes_hands_and_dies_uses_its_budget_up() {
    let mut restarts = Restarts::new(RestartPolicy::new());
    let mut now = Time::ZERO;
    let mut starts = 1;
    while let Verdict::RetryAt(at) = restarts.failed(Some(SECOND), now, 0) {
        now = at;
        starts += 1;
    }
    assert_eq!(starts, 6);
}

#[test]
fn a_sustained_uptime_ends_the_series() {
    let mut restarts = Restarts::new(RestartPolicy::new());
    for _ in 0..4 {
        restarts.failed(None, Time::ZERO, 0);
    }
    let verdict = restarts.failed(Some(60 * SECOND), 100 * SECOND, 0);
    assert_eq!(verdict, Verdict::RetryAt(101 * SECOND));
}

#[test]
fn a_used_up_budget_says_when_it_is_renewed() {
    let mut restarts = Restarts::new(RestartPolicy::new().max_restarts(0));
    let verdict = restarts.failed(None, SECOND, 0);
    assert_eq!(verdict, Verdict::Exhausted(Some(601 * SECOND)));
    let mut never = Restarts::new(RestartPolicy::never());
    assert_eq!(never.failed(None, SECOND, 0), Verdict::Exhausted(None));
}

#[test]
fn a_series_is_forgotten_after_its_cooldown() {
    let mut restarts = Restarts::new(RestartPolicy::new());
    let known = |restarts: &Restarts| (restarts.failures(), restarts.forget_at());
    assert_eq!(known(&restarts), (0, Some(Time::ZERO)));
    restarts.failed(None, SECOND, 0);
    assert_eq!(known(&restarts), (1, Some(601 * SECOND)));
    restarts.set_policy(RestartPolicy::never());
    restarts.failed(None, SECOND, 0);
    assert_eq!(known(&restarts), (2, None));
    restarts.reset();
    assert_eq!(known(&restarts), (0, Some(Time::ZERO)));
}

#[test]
fn a_pause_is_shortened_by_thousandths() {
    for (entropy, millis) in [(0, 1000), (1, 999), (200, 800), (201, 1000), (401, 800)] {
        let pause = delay(&RestartPolicy::new(), 1, entropy);
        assert_eq!(pause, Duration::from_millis(millis), "{entropy}");
    }
}

#[test]
fn settings_are_brought_within_their_bounds() {
    let policy = RestartPolicy::new().backoff(2 * SECOND, SECOND);
    assert_eq!((policy.initial, policy.max), (2 * SECOND, 2 * SECOND));
}

/// One of the events that may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    StartFails,
    /// After this many seconds of uptime.
    Dies(u64),
    Reset,
    /// A budget of this many restarts.
    Budget(Option<u32>),
}

/// Follows one order of events, each a second after the one before.
fn follow(order: &[Input]) {
    const PAUSES: [u32; 7] = [1, 2, 4, 8, 16, 32, 60];
    let policy = |budget| RestartPolicy::new().max_restarts(budget);
    let mut restarts = Restarts::new(policy(Some(2)));
    let (mut budget, mut series, mut last) = (Some(2), 0, Time::ZERO);
    for (now, &input) in (1..).map(|now| now * SECOND).zip(order) {
        let uptime = match input {
            Input::Reset => {
                restarts.reset();
                series = 0;
                continue;
            }
            Input::Budget(new) => {
                restarts.set_policy(policy(new));
                budget = new;
                continue;
            }
            Input::StartFails => None,
            Input::Dies(uptime) => Some(uptime),
        };
        series = match uptime {
            Some(60..) => 1,
            _ => series + 1,
        };
        last = now;
        let expected = match budget {
            Some(budget) if series as u32 > budget => Verdict::Exhausted(Some(now + 600 * SECOND)),
            _ => Verdict::RetryAt(now + PAUSES[series - 1] * SECOND),
        };
        let verdict = restarts.failed(uptime.map(Duration::from_secs), now, 0);
        assert_eq!(verdict, expected, "{order:?}");
        assert_eq!(restarts.failures() as usize, series, "{order:?}");
        assert_eq!(restarts.forget_at(), Some(last + 600 * SECOND), "{order:?}");
    }
    let forgotten = match series {
        0 => Time::ZERO,
        _ => last + 600 * SECOND,
    };
    assert_eq!(restarts.forget_at(), Some(forgotten), "{order:?}");
}

#[test]
fn every_order_of_failures_keeps_to_the_budget() {
    const INPUTS: [Input; 6] = [
        Input::StartFails,
        Input::Dies(59),
        Input::Dies(60),
        Input::Reset,
        Input::Budget(Some(1)),
        Input::Budget(None),
    ];
    const LENGTH: u32 = 6;
    let number = INPUTS.len().pow(LENGTH);
    for nth in 0..number {
        let input = |at| INPUTS[nth / INPUTS.len().pow(at) % INPUTS.len()];
        follow(&(0..LENGTH).map(input).collect::<Vec<_>>());
    }
    println!("{number} orders of failures");
}

proptest! {
    #[test]
    fn a_wait_is_within_its_bounds(failures in 1u32..100, entropy: u64) {
        let policy = RestartPolicy::new();
        let full = delay(&policy, failures, 0);
        let wait = delay(&policy, failures, entropy);
        prop_assert!(wait <= full && full <= policy.max);
        prop_assert!(wait >= full * 4 / 5);
    }
}
