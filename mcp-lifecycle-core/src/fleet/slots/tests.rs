//! The table's decisions, one at a time.

use std::sync::Arc;
use std::time::Duration;

use super::effect::*;
use super::settings::{Demand, Limits, SlotSettings};
use super::table::Table;
use crate::fleet::engine::record::Failure;
use crate::fleet::restart::RestartPolicy;
use crate::fleet::restart::Time;
use crate::fleet::{AcquireErrorKind, FleetOptions, ServerState, Sharing};
use crate::terminate::report::EndReason;

/// A server that is never busy, by its key.
#[derive(Debug)]
struct Quiet(&'static str, Arc<str>);

impl Entry for Quiet {
    type Key = &'static str;
    fn key(&self) -> &Self::Key {
        &self.0
    }
    fn server(&self) -> &Arc<str> {
        &self.1
    }
    fn owner(&self) -> &Arc<str> {
        &self.1
    }
    fn is_busy(&self) -> bool {
        false
    }
    fn is_dead(&self) -> bool {
        false
    }
    fn failure(&self) -> Option<Failure> {
        None
    }
}

fn at(seconds: u64) -> Time {
    Duration::from_secs(seconds)
}

fn settings(demand: Demand) -> SlotSettings {
    SlotSettings {
        demand,
        beside: false,
        options: FleetOptions::new()
            .idle_ttl(at(60))
            .restart(RestartPolicy::new().jitter_percent(0)),
    }
}

fn table(max_live: usize) -> Table<Quiet> {
    Table::new(Limits {
        max_live,
        max_starting: 8,
    })
}

fn insert(
    table: &mut Table<Quiet>,
    key: &'static str,
    settings: SlotSettings,
    now: Time,
) -> SlotId {
    table.insert(Quiet(key, Arc::from("s")), settings, now)
}

fn text(effect: Effect) -> String {
    format!("{effect:?}")
}

fn effects(table: &mut Table<Quiet>) -> Vec<String> {
    table.take_effects().into_iter().map(text).collect()
}

fn is_started(table: &mut Table<Quiet>, slot: SlotId, generation: Generation) -> bool {
    effects(table).contains(&text(Effect::Start { slot, generation }))
}

/// Acquires and completes the start, if there is one.
fn ready(table: &mut Table<Quiet>, key: &'static str, now: Time) -> SlotId {
    let id = insert(table, key, settings(Demand::OnDemand), now);
    table.acquire(id, at(99), now);
    table.started(id, 1, now);
    table.take_effects();
    id
}

#[test]
fn everybody_who_waits_shares_one_start() {
    let mut table = table(8);
    let id = insert(&mut table, "a", settings(Demand::OnDemand), at(0));
    let mut wait = || table.acquire(id, at(99), at(0));
    let (first, second) = (wait(), wait());
    assert!(table.cancel(id, first, at(1)));
    table.started(id, 1, at(2));
    let start = Effect::Start {
        slot: id,
        generation: 1,
    };
    let grant = Effect::Grant {
        waiter: second,
        slot: id,
        generation: 1,
    };
    assert_eq!(effects(&mut table), [start, grant].map(text));
}

#[test]
fn a_replacement_waits_for_the_proof() {
    let mut table = table(8);
    let old = insert(&mut table, "a", settings(Demand::Declared), at(0));
    table.started(old, 1, at(0));
    table.retire(old, &EndReason::ConfigChanged, at(1));
    let new = insert(&mut table, "a", settings(Demand::Declared), at(1));
    let started = |table: &mut Table<Quiet>| is_started(table, new, 1);
    assert!(!started(&mut table));
    table.ended(old, 1, false, 0, at(2));
    assert!(!started(&mut table), "the old one may still live");
    table.tick(at(7));
    table.ended(old, 1, true, 0, at(8));
    assert!(started(&mut table));
}

#[test]
fn at_the_limit_the_idle_one_used_longest_ago_makes_room() {
    let mut table = table(2);
    let held = ready(&mut table, "held", at(0));
    let idle = ready(&mut table, "idle", at(1));
    table.release(idle, 1, at(2));
    let new = insert(&mut table, "new", settings(Demand::OnDemand), at(3));
    table.acquire(new, at(99), at(3));
    let reason = EndReason::Evicted;
    assert_eq!(
        effects(&mut table),
        [text(Effect::End { slot: idle, reason })]
    );
    // Its place is free when it is proven gone, and not before.
    table.ended(idle, 1, true, 0, at(4));
    assert!(is_started(&mut table, new, 1));
    assert_eq!(table.slot(held).unwrap().leases(), 1);
}

#[test]
fn at_the_limit_with_nothing_idle_the_error_names_the_holders() {
    let mut table = table(1);
    let held = ready(&mut table, "held", at(0));
    let new = insert(&mut table, "new", settings(Demand::OnDemand), at(1));
    let waiter = table.acquire(new, at(99), at(1));
    let refusal = AcquireErrorKind::Capacity {
        limit: 1,
        of_server: false,
        holders: vec![table.slot(held).unwrap().holder()],
    };
    let refused = Effect::Refuse { waiter, refusal };
    assert_eq!(effects(&mut table), [text(refused)]);
    assert!(table.slot(new).is_none());
}

#[test]
fn a_place_whose_cleanup_is_uncertain_still_counts() {
    let mut table = table(1);
    let old = ready(&mut table, "old", at(0));
    table.release(old, 1, at(0));
    table.tick(at(60));
    table.ended(old, 1, false, 0, at(61));
    let new = insert(&mut table, "new", settings(Demand::OnDemand), at(62));
    table.acquire(new, at(99), at(62));
    let refused = |e: &Effect| {
        matches!(
            e,
            Effect::Refuse {
                refusal: AcquireErrorKind::Capacity { .. },
                ..
            }
        )
    };
    assert!(table.take_effects().iter().any(refused));
}

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
fn an_exclusive_server_has_one_lease_at_a_time_in_order() {
    let mut table = table(8);
    let mut exclusive = settings(Demand::OnDemand);
    exclusive.options.sharing = Sharing::Exclusive;
    let id = insert(&mut table, "a", exclusive, at(0));
    for _ in 0..3 {
        table.acquire(id, at(99), at(0));
    }
    table.started(id, 1, at(1));
    for waiting in [2, 1, 0] {
        assert_eq!(table.slot(id).unwrap().leases(), 1);
        assert_eq!(table.slot(id).unwrap().waiting(), waiting);
        table.release(id, 1, at(2));
    }
    assert_eq!(table.slot(id).unwrap().leases(), 0);
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
