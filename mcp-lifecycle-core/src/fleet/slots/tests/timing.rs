//! Deadlines, restarts and idle time.

use super::*;

#[test]
fn idle_time_runs_from_the_last_return_only() {
    let mut table = table(8);
    let id = ready(&mut table, "a", at(0));
    assert_eq!(table.next_deadline(), None, "a lease holds it");
    assert_eq!(table.release(id, 1, at(100)), Some(at(160)));
    table.tick(at(159));
    assert!(!table.has_effects());
    table.tick(at(160));
    let reason = EndReason::Idle;
    assert_eq!(
        effects(&mut table),
        [text(Effect::End { slot: id, reason })]
    );
}

#[test]
fn a_crash_loop_starts_no_more_often_than_the_budget() {
    let mut table = table(8);
    let id = insert(&mut table, "a", settings(Demand::Declared), at(0));
    let (mut now, mut starts) = (at(0), 0);
    while now < at(420) {
        for effect in table.take_effects() {
            if let Effect::Start { generation, .. } = effect {
                starts += 1;
                table.started(id, generation, now);
                table.ended(id, generation, true, 0, now);
            }
        }
        now += Duration::from_millis(100);
        table.tick(now);
    }
    assert_eq!(starts, 6);
    let slot = table.slot(id).unwrap();
    assert_eq!(slot.state(), ServerState::Exhausted);
    assert!(slot.next().is_some());
    table.reset(id, now);
    assert!(is_started(&mut table, id, 7));
}

#[test]
fn a_restart_waits_for_its_time_and_an_exhausted_budget_for_its_own() {
    let mut table = table(8);
    let mut declared = settings(Demand::Declared);
    declared.options = declared
        .options
        .restart(RestartPolicy::new().max_restarts(1));
    let id = insert(&mut table, "a", declared, at(0));
    let mut now = at(0);
    for (generation, state, pause) in [
        (1, ServerState::Backoff, 1),
        (2, ServerState::Exhausted, 600),
        (3, ServerState::Backoff, 1),
    ] {
        assert!(is_started(&mut table, id, generation));
        table.ended(id, generation, true, 0, now);
        now += at(pause);
        assert_eq!(table.slot(id).unwrap().state(), state);
        assert_eq!(table.next_deadline(), Some(now));
        table.tick(now - Duration::from_nanos(1));
        assert!(!table.has_effects(), "{generation}");
        table.tick(now);
    }
    assert!(is_started(&mut table, id, 4));
}

#[test]
fn an_unproven_end_is_retried_after_longer_pauses() {
    let (first, longest) = END_AGAIN;
    let mut table = table(8);
    let id = ready(&mut table, "a", at(0));
    table.retire(id, &EndReason::ScopeEnded, at(0));
    table.take_effects();
    let mut now = at(0);
    for nth in 0..12 {
        table.ended(id, 1, false, 0, now);
        let pause = first.saturating_mul(1 << nth).min(longest);
        assert_eq!(table.next_deadline(), Some(now + pause));
        table.tick(now + pause - Duration::from_nanos(1));
        assert!(!table.has_effects());
        now += pause;
        table.tick(now);
        assert_eq!(effects(&mut table), [text(Effect::EndAgain { slot: id })]);
        assert_eq!(table.next_deadline(), None);
    }
}

#[test]
fn a_queued_slot_that_is_wanted_has_no_deadline() {
    for demand in [Demand::Declared, Demand::OnDemand] {
        let mut table = Table::new(Limits {
            max_live: 8,
            max_starting: 1,
        });
        let ids = ["a", "b"].map(|key| {
            let id = insert(&mut table, key, settings(demand), at(0));
            if demand == Demand::OnDemand {
                table.acquire(id, at(99), at(0));
            }
            id
        });
        let state = ids.map(|id| table.slot(id).unwrap().state());
        assert_eq!(state, [ServerState::Starting, ServerState::Queued]);
        assert_eq!(table.next_deadline(), None);
    }
    // One on demand that is not acquired is forgotten at once.
    let mut table = table(8);
    insert(&mut table, "a", settings(Demand::OnDemand), at(1));
    assert_eq!(table.next_deadline(), Some(at(0)));
    table.tick(at(1));
    assert!(table.is_empty());
}

#[test]
fn a_call_after_the_release_restarts_the_idle_clock() {
    let mut table = table(8);
    let id = ready(&mut table, "busy", at(0));
    table.release(id, 1, at(0));
    table.tick(at(60));
    assert!(!table.has_effects());
    assert_eq!(table.next_deadline(), Some(at(120)));
}

#[test]
fn a_failed_server_that_nobody_wants_is_forgotten_after_its_cooldown() {
    let mut table = table(8);
    let id = insert(&mut table, "a", settings(Demand::OnDemand), at(0));
    table.acquire(id, at(0), at(0));
    table.ended(id, 1, true, 0, at(0));
    table.tick(at(599));
    assert!(!table.is_empty());
    table.tick(at(600));
    assert!(table.is_empty());
}

#[test]
fn uptime_ends_with_the_death_and_not_with_its_proof() {
    for (died, failures) in [(59, 2), (60, 1)] {
        let mut table = table(8);
        let id = insert(&mut table, "a", settings(Demand::Declared), at(0));
        table.ended(id, 1, true, 0, at(0));
        table.tick(at(1));
        table.started(id, 2, at(1));
        table.died(id, 2, at(1 + died));
        table.ended(id, 2, true, 0, at(999));
        assert_eq!(table.slot(id).unwrap().failures(), failures, "{died} s");
    }
}

#[test]
fn new_rules_hold_from_the_next_failure_on() {
    let mut table = table(8);
    let id = insert(&mut table, "a", settings(Demand::Declared), at(0));
    let mut never = settings(Demand::Declared);
    never.options = never.options.restart(RestartPolicy::never());
    table.configure(id, never);
    table.ended(id, 1, true, 0, at(0));
    let slot = table.slot(id).unwrap();
    assert_eq!((slot.state(), slot.next()), (ServerState::Exhausted, None));
}

#[test]
fn failed_servers_are_remembered_up_to_a_number() {
    const NUMBER: usize = 1024;
    let mut table = table(8);
    let keep = insert(&mut table, "declared", settings(Demand::Declared), at(0));
    table.ended(keep, 1, true, 0, at(1));
    let fail = |table: &mut Table<Quiet>, nth: usize| {
        let key = Box::leak(nth.to_string().into_boxed_str());
        let now = at(2) + Duration::from_nanos(nth as u64);
        let id = insert(table, key, settings(Demand::OnDemand), now);
        table.acquire(id, at(99), now);
        table.ended(id, 1, true, 0, now);
        table.take_effects();
        id
    };
    let ids: Vec<_> = (0..NUMBER).map(|nth| fail(&mut table, nth)).collect();
    assert_eq!(table.slots().count(), NUMBER + 1);
    // One that is waited for is not forgotten.
    table.acquire(ids[0], at(99), at(2));
    fail(&mut table, NUMBER);
    assert_eq!(table.slots().count(), NUMBER + 2, "one of them waits");
    fail(&mut table, NUMBER + 1);
    assert_eq!(table.slots().count(), NUMBER + 2);
    let is_there = |id| table.slot(id).is_some();
    assert!(is_there(keep) && is_there(ids[0]) && !is_there(ids[1]) && is_there(ids[2]));
}
