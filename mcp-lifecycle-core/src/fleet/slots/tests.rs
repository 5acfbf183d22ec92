//! The table's decisions, one at a time.

mod admission;
mod timing;

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
use crate::terminate::timing::END_AGAIN;

/// A server by its key, `server/name` or a name alone. One is always busy, and one has failed before.
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
        self.0 == "busy"
    }
    fn is_dead(&self) -> bool {
        false
    }
    fn failure(&self) -> Option<Failure> {
        (self.0 == "failed").then_some(Failure::Closed(EndReason::Idle))
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
            .restart(RestartPolicy::new()),
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
    let server = key.split_once('/').map_or("s", |(server, _)| server);
    table.insert(Quiet(key, Arc::from(server)), settings, now)
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

/// Acquires, and returns why it is refused at once, if it is.
fn refused(table: &mut Table<Quiet>, id: SlotId, deadline: Time, now: Time) -> Option<String> {
    let waiter = table.acquire(id, deadline, now);
    table
        .take_effects()
        .into_iter()
        .find_map(|effect| match effect {
            Effect::Refuse {
                waiter: it,
                refusal,
            } if it == waiter => Some(format!("{refusal:?}")),
            _ => None,
        })
}

#[test]
fn a_waiter_that_no_start_can_serve_is_refused() {
    let mut table = table(8);
    let mut once = settings(Demand::OnDemand);
    once.options = FleetOptions::new().restart(RestartPolicy::new().max_restarts(1));
    let id = insert(&mut table, "failed", once, at(0));
    assert_eq!(refused(&mut table, id, at(99), at(0)), None);
    table.ended(id, 1, true, 0, at(10));
    let why = refused(&mut table, id, at(11) - Duration::from_nanos(1), at(10));
    let last = table.slot(id).unwrap().last_error();
    assert_eq!(last.as_deref(), Some(&*EndReason::Idle.to_string()));
    let backoff = AcquireErrorKind::Backoff {
        retry_in: at(1),
        failures: 1,
        last: last.clone(),
    };
    assert_eq!(why, Some(format!("{backoff:?}")));
    assert_eq!(
        refused(&mut table, id, at(11), at(10)),
        None,
        "it starts in time"
    );
    table.tick(at(11));
    assert!(is_started(&mut table, id, 2));
    table.ended(id, 2, true, 0, at(12));
    let exhausted = AcquireErrorKind::Exhausted {
        retry_in: Some(at(599)),
        failures: 2,
        last,
    };
    let why = refused(&mut table, id, at(9999), at(13));
    assert_eq!(why, Some(format!("{exhausted:?}")));
    assert_eq!(table.slot(id).unwrap().failures(), 2);

    let old = ready(&mut table, "old", at(0));
    table.retire(old, &EndReason::ScopeEnded, at(1));
    let retired = AcquireErrorKind::Retired(EndReason::ScopeEnded);
    assert_eq!(
        refused(&mut table, old, at(99), at(2)),
        Some(format!("{retired:?}"))
    );
    table.close(&EndReason::Shutdown, at(3));
    let closed = AcquireErrorKind::Closed;
    assert_eq!(
        refused(&mut table, id, at(99), at(4)),
        Some(format!("{closed:?}"))
    );
}

#[test]
fn waiters_outlive_a_death_and_not_a_failed_start_or_an_unproven_end() {
    let mut table = table(8);
    let mut exclusive = settings(Demand::OnDemand);
    exclusive.options.sharing = Sharing::Exclusive;
    let id = insert(&mut table, "a", exclusive, at(0));
    for _ in 0..2 {
        table.acquire(id, at(99), at(0));
    }
    table.started(id, 1, at(0));
    table.died(id, 1, at(0));
    table.ended(id, 1, true, 0, at(0));
    assert_eq!(table.slot(id).unwrap().waiting(), 1);
    table.tick(at(1));
    assert_eq!(
        table.slot(id).unwrap().leases(),
        0,
        "they were of the dead one"
    );
    table.take_effects();
    table.ended(id, 2, true, 0, at(1));
    let failed = AcquireErrorKind::Failed("its start failed".to_owned());
    assert!(effects(&mut table)[0].contains(&format!("{failed:?}")));
    table.acquire(id, at(99), at(1));
    table.tick(at(3));
    table.started(id, 3, at(3));
    table.acquire(id, at(99), at(3));
    table.take_effects();
    table.ended(id, 3, false, 0, at(4));
    let unproven = AcquireErrorKind::Unproven(None);
    assert!(effects(&mut table)[0].contains(&format!("{unproven:?}")));
}

#[test]
fn events_of_another_process_or_state_change_nothing() {
    let mut table = table(8);
    let id = insert(&mut table, "a", settings(Demand::Declared), at(0));
    let state = |table: &Table<Quiet>| {
        let slot = table.slot(id).unwrap();
        (
            slot.state(),
            slot.generation(),
            slot.failures(),
            slot.next(),
        )
    };
    let same = |table: &mut Table<Quiet>, events: [fn(&mut Table<Quiet>, SlotId); 3]| {
        let before = state(table);
        table.take_effects();
        for event in events {
            event(table, id);
            assert_eq!(state(table), before);
        }
        assert!(!table.has_effects());
    };
    assert_eq!(state(&table), (ServerState::Starting, 1, 0, None));
    same(
        &mut table,
        [
            |table, id| table.started(id, 2, at(1)),
            |table, id| table.died(id, 1, at(1)),
            |table, id| table.ended(id, 2, true, 0, at(1)),
        ],
    );
    table.started(id, 1, at(1));
    assert_eq!(state(&table), (ServerState::Ready, 1, 0, None));
    same(
        &mut table,
        [
            |table, id| table.started(id, 1, at(2)),
            |table, id| table.died(id, 2, at(2)),
            |table, id| table.ended(id, 0, false, 0, at(2)),
        ],
    );
    table.died(id, 1, at(2));
    assert_eq!(state(&table), (ServerState::Ending, 1, 0, None));
    same(
        &mut table,
        [
            |table, id| table.started(id, 1, at(3)),
            |table, id| table.died(id, 1, at(3)),
            |table, id| table.ended(id, 2, true, 0, at(3)),
        ],
    );
    table.ended(id, 1, true, 0, at(3));
    assert_eq!(state(&table), (ServerState::Backoff, 1, 1, Some(at(4))));
    same(
        &mut table,
        [
            |table, id| table.started(id, 1, at(3)),
            |table, id| table.died(id, 1, at(3)),
            |table, id| table.ended(id, 1, true, 0, at(3)),
        ],
    );
}

#[test]
fn a_key_leads_to_its_slot_that_is_not_retired() {
    let mut table = table(8);
    assert_eq!(table.find(&"a"), None);
    let old = ready(&mut table, "a", at(0));
    let other = ready(&mut table, "b", at(0));
    assert_eq!(table.find(&"a"), Some(old));
    assert!(table.is_live(old));
    table.retire(old, &EndReason::ScopeEnded, at(1));
    assert_eq!(table.find(&"a"), None);
    let new = insert(&mut table, "a", settings(Demand::OnDemand), at(1));
    assert!(new != old && !table.is_live(new));
    assert_eq!(
        (table.find(&"a"), table.find(&"b")),
        (Some(new), Some(other))
    );
    table.ended(old, 1, true, 0, at(2));
    assert!(table.slot(old).is_none() && !table.is_live(old));
    assert_eq!(table.find(&"a"), Some(new));
}

#[test]
fn a_closed_table_takes_and_gives_nothing() {
    let mut table = table(8);
    let id = ready(&mut table, "a", at(0));
    let waiting = insert(&mut table, "b", settings(Demand::OnDemand), at(0));
    let waiter = table.acquire(waiting, at(99), at(0));
    assert_eq!(table.lease(id, at(0)), Some(1));
    assert!(!table.is_closed());
    table.take_effects();
    table.close(&EndReason::Shutdown, at(1));
    assert!(table.is_closed());
    let refused = AcquireErrorKind::Retired(EndReason::Shutdown);
    let mut done = effects(&mut table);
    done.sort();
    let end = |slot| {
        text(Effect::End {
            slot,
            reason: EndReason::Shutdown,
        })
    };
    let refuse = Effect::Refuse {
        waiter,
        refusal: refused,
    };
    let mut expected = [end(id), end(waiting), text(refuse)];
    expected.sort();
    assert_eq!(done, expected);
    assert_eq!(table.lease(id, at(2)), None);
    let late = insert(&mut table, "c", settings(Demand::Declared), at(2));
    assert!(table.slot(late).is_none() && !table.has_effects());
    // An unproven end is tried again at once.
    table.ended(id, 1, false, 0, at(2));
    table.close(&EndReason::Shutdown, at(2));
    assert_eq!(effects(&mut table), [text(Effect::EndAgain { slot: id })]);
    for id in [id, waiting] {
        assert!(!table.is_empty());
        table.ended(id, 1, true, 0, at(3));
    }
    assert!(table.is_empty());
}
