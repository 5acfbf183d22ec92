//! Every order of events, up to a bound, from some situations.

use super::*;

/// One place for two servers, so that each start may evict or wait.
const NARROW: Limits = Limits {
    max_live: 1,
    max_starting: 1,
};

const WIDE: Limits = Limits {
    max_live: 2,
    max_starting: 1,
};

/// Acquires of two keys of one server, which runs at most one process on demand of `1`.
const SHARED: Op = acquire(0, false);
const EXCLUSIVE: Op = acquire(1, true);
const STARTED: Op = Op::StartSucceeds { nth: 0 };
const RETURNED: Op = Op::Release {
    nth: 0,
    twice: false,
};

const fn acquire(key: u8, exclusive: bool) -> Op {
    Op::Acquire {
        key,
        exclusive,
        deadline: 30,
    }
}

/// Returns each event that may come next.
fn next(world: &World) -> Vec<Op> {
    let count = |state| (world.processes.values()).filter(move |it| it.state == state);
    let each = |state| 0..count(state).count();
    let slots: Vec<_> = world.table.slots().map(|slot| slot.entry.key).collect();
    let keys: BTreeSet<_> = slots.iter().collect();
    let mut all = vec![
        SHARED,
        EXCLUSIVE,
        Op::Declare { key: 4 },
        Op::Tick { seconds: 21 },
    ];
    all.extend(each(State::Starting).flat_map(|nth| {
        let fails = |proven| Op::StartFails { nth, proven };
        [Op::StartSucceeds { nth }, fails(true), fails(false)]
    }));
    all.extend(each(State::Running).flat_map(|nth| {
        let crash = |noticed| Op::Crash { nth, noticed };
        [crash(true), crash(false), Op::Busy { nth, busy: true }]
    }));
    all.extend(
        each(State::Ending).flat_map(|nth| [true, false].map(|proven| Op::Ended { nth, proven })),
    );
    all.extend((0..world.waiters.len()).map(|nth| Op::CancelWaiter { nth }));
    all.extend((0..world.leases.len()).map(|nth| Op::Release { nth, twice: true }));
    all.extend((0..slots.len()).map(|nth| Op::Retire { nth }));
    all.extend((0..keys.len()).flat_map(|nth| {
        let reconfigure = |beside| Op::Reconfigure { nth, beside };
        [reconfigure(false), reconfigure(true)]
    }));
    all.extend((!world.table.is_closed()).then_some(Op::Shutdown));
    all
}

/// Follows all orders that begin so and have `more` events, and checks how each can end. Returns
/// their number, beginnings included.
fn follow_all(limits: Limits, order: &mut Vec<Op>, more: usize) -> usize {
    let world = || {
        let mut world = World::new(limits);
        for op in order.iter() {
            world.apply(op.clone());
            world.obey();
        }
        world.check();
        world
    };
    let now = world();
    if more == 0 {
        world().answer_all();
        world().shut_down();
        return 1;
    }
    let mut reached = 1;
    for op in next(&now) {
        order.push(op);
        reached += follow_all(limits, order, more - 1);
        order.pop();
    }
    reached
}

#[test]
fn every_order_of_events_keeps_the_promises() {
    let situations = [
        (NARROW, vec![], 4),
        (NARROW, vec![SHARED, STARTED, RETURNED], 3),
        (WIDE, vec![SHARED, STARTED, EXCLUSIVE], 3),
        (WIDE, vec![EXCLUSIVE, EXCLUSIVE, STARTED], 3),
    ];
    let mut reached = 0;
    for (limits, mut order, more) in situations {
        reached += follow_all(limits, &mut order, more);
    }
    println!("{reached} orders of events of slots");
    assert!(reached > 10_000, "{reached} orders");
}
