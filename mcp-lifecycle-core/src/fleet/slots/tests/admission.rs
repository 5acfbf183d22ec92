//! Limits, and the servers that make room.

use super::*;

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
fn a_cancelled_waiter_takes_its_start_along() {
    let mut table = Table::new(Limits {
        max_live: 8,
        max_starting: 2,
    });
    let ids = ["a", "b", "c"].map(|key| insert(&mut table, key, settings(Demand::OnDemand), at(0)));
    let waiters = ids.map(|id| table.acquire(id, at(99), at(0)));
    let state = |table: &Table<Quiet>| ids.map(|id| table.slot(id).map(|slot| slot.state()));
    let (starting, queued) = (Some(ServerState::Starting), Some(ServerState::Queued));
    assert_eq!(state(&table), [starting, starting, queued], "two at a time");
    assert!(
        !table.cancel(ids[2], waiters[0], at(1)),
        "it waits elsewhere"
    );
    assert_eq!(state(&table), [starting, starting, queued]);
    assert!(table.cancel(ids[2], waiters[2], at(1)));
    table.started(ids[0], 1, at(1));
    assert_ne!(state(&table)[2], starting);
    assert_eq!(table.slot(ids[0]).unwrap().leases(), 1);
    // The cancelled one's process is kept for the idle time.
    assert!(table.cancel(ids[1], waiters[1], at(2)));
    table.started(ids[1], 1, at(3));
    assert_eq!(table.next_deadline(), Some(at(63)));
}

/// Returns the servers that are ended now, by key.
fn evicted(table: &mut Table<Quiet>) -> Vec<&'static str> {
    let effects = table.take_effects();
    let ended = effects.iter().filter_map(|effect| match effect {
        Effect::End {
            slot,
            reason: EndReason::Evicted,
        } => Some(*table.slot(*slot)?.entry.key()),
        _ => None,
    });
    ended.collect()
}

fn idle(table: &mut Table<Quiet>, key: &'static str, until: u64) -> SlotId {
    let id = ready(table, key, at(0));
    assert_eq!(table.lease(id, at(until)), Some(1));
    for _ in 0..2 {
        table.release(id, 1, at(until));
    }
    id
}

fn wanted(
    table: &mut Table<Quiet>,
    key: &'static str,
    options: FleetOptions,
) -> (SlotId, WaiterId) {
    let mut settings = settings(Demand::OnDemand);
    settings.options = options;
    let id = insert(table, key, settings, at(9));
    (id, table.acquire(id, at(99), at(9)))
}

#[test]
fn each_idle_server_makes_room_for_one() {
    let mut table = table(2);
    let later = idle(&mut table, "later", 3);
    let first = idle(&mut table, "first", 2);
    let (a, _) = wanted(&mut table, "a", FleetOptions::new());
    assert_eq!(evicted(&mut table), ["first"]);
    let (b, _) = wanted(&mut table, "b", FleetOptions::new());
    assert_eq!(evicted(&mut table), ["later"]);
    let holder = |id| table.slot(id).unwrap().holder();
    assert_eq!([later, first].map(holder), ["s of s (ending)"; 2]);
    let holders = [later, first];
    let (c, waiter) = wanted(&mut table, "c", FleetOptions::new());
    is_refused(&mut table, c, waiter, false, holders);
    each_end_serves_one(&mut table, [(first, a), (later, b)]);
}

#[test]
fn a_server_at_its_own_limit_evicts_its_own() {
    // The table is full as well: one eviction serves both limits.
    for places in [4, 8] {
        let mut table = table(places);
        let others = [
            idle(&mut table, "other/1", 1),
            idle(&mut table, "other/2", 1),
        ];
        let first = idle(&mut table, "x/1", 2);
        let second = idle(&mut table, "x/2", 3);
        let two = || FleetOptions::new().max_live(2);
        let (a, _) = wanted(&mut table, "x/a", two());
        assert_eq!(evicted(&mut table), ["x/1"]);
        let (b, _) = wanted(&mut table, "x/b", two());
        assert_eq!(evicted(&mut table), ["x/2"]);
        let (c, waiter) = wanted(&mut table, "x/c", two());
        is_refused(&mut table, c, waiter, true, [first, second]);
        each_end_serves_one(&mut table, [(first, a), (second, b)]);
        assert!(others.iter().all(|id| table.slot(*id).unwrap().is_idle()));
    }
}

/// The third start at a limit of two, whose places are promised to others.
#[track_caller]
fn is_refused(
    table: &mut Table<Quiet>,
    slot: SlotId,
    waiter: WaiterId,
    of_server: bool,
    holders: [SlotId; 2],
) {
    let refusal = AcquireErrorKind::Capacity {
        limit: 2,
        of_server,
        holders: holders.map(|id| table.slot(id).unwrap().holder()).to_vec(),
    };
    assert_eq!(effects(table), [text(Effect::Refuse { waiter, refusal })]);
    assert!(table.slot(slot).is_none());
}

#[track_caller]
fn each_end_serves_one(table: &mut Table<Quiet>, pairs: [(SlotId, SlotId); 2]) {
    for (ending, slot) in pairs {
        table.ended(ending, 1, true, 0, at(10));
        let generation = 1;
        assert_eq!(effects(table), [text(Effect::Start { slot, generation })]);
    }
}

#[test]
fn a_start_beside_waits_for_no_other_of_its_key() {
    let mut table = table(8);
    insert(&mut table, "a", settings(Demand::Declared), at(0));
    let mut beside = settings(Demand::Declared);
    beside.beside = true;
    let id = insert(&mut table, "a", beside, at(0));
    assert!(is_started(&mut table, id, 1));
}

/// A declared server waits for its place; one on demand is refused.
#[test]
fn a_declared_server_waits_for_capacity() {
    let mut table = table(1);
    let held = ready(&mut table, "held", at(0));
    let id = insert(&mut table, "a", settings(Demand::Declared), at(0));
    assert!(!table.has_effects());
    table.release(held, 1, at(1));
    assert_eq!(evicted(&mut table), ["held"]);
    table.ended(held, 1, true, 0, at(2));
    assert!(is_started(&mut table, id, 1));
    // No other start may take its place, and its predecessor's end is not proven.
    table.retire(id, &EndReason::ConfigChanged, at(3));
    table.ended(id, 1, false, 0, at(3));
    let (_, waiter) = wanted(&mut table, "a", FleetOptions::new());
    let why = table
        .take_effects()
        .into_iter()
        .map(text)
        .collect::<Vec<_>>();
    assert!(
        !why.iter().any(|it| it.contains(&format!("{waiter:?}"))),
        "{why:?}"
    );
    table.ended(id, 1, false, 0, at(4));
    let refusal = AcquireErrorKind::Unproven(None);
    assert_eq!(
        effects(&mut table),
        [text(Effect::Refuse { waiter, refusal })]
    );
}

#[test]
fn a_failed_server_that_is_wanted_no_more_is_not_started() {
    let mut table = Table::new(Limits {
        max_live: 8,
        max_starting: 1,
    });
    let (id, _) = wanted(&mut table, "a", FleetOptions::new());
    table.ended(id, 1, true, 0, at(9));
    let waiter = table.acquire(id, at(99), at(9));
    let (other, _) = wanted(&mut table, "b", FleetOptions::new());
    table.tick(at(10));
    assert_eq!(table.slot(id).unwrap().state(), ServerState::Queued);
    assert!(table.cancel(id, waiter, at(10)));
    table.started(other, 1, at(11));
    assert_eq!(table.slot(id).unwrap().state(), ServerState::Queued);
    // It is, when it is wanted again.
    table.take_effects();
    table.acquire(id, at(99), at(12));
    assert!(is_started(&mut table, id, 2));
}
