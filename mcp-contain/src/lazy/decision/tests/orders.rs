//! Every order of events, up to a bound, from some situations.

use super::random::{Step, World};

/// Follows all orders that begin so and have `more` steps, and checks how each ends. Returns their
/// number, beginnings included.
fn follow_all(is_cached: bool, order: &mut Vec<Step>, more: usize) -> usize {
    let mut world = World::new(is_cached);
    order.iter().for_each(|step| world.step(step));
    if more == 0 {
        world.settle();
        return 1;
    }
    let mut reached = 1;
    for step in world.next_steps() {
        order.push(step);
        reached += follow_all(is_cached, order, more - 1);
        order.pop();
    }
    reached
}

#[test]
fn every_order_of_events_keeps_the_promises() {
    let mut reached = 0;
    let reply = || Step::Reply(0);
    for (is_cached, mut order, more) in [
        (false, vec![], 5),
        (true, vec![Step::Initialize, Step::List], 4),
        (
            true,
            vec![Step::Initialize, Step::Call, reply(), reply()],
            4,
        ),
        // It was ended, and there is more to do.
        (
            false,
            vec![Step::Call, reply(), Step::Wait(601), Step::Call],
            4,
        ),
        // It failed twice: the next start waits.
        (
            false,
            vec![Step::Call, Step::Crash, Step::Call, Step::Crash],
            4,
        ),
    ] {
        reached += follow_all(is_cached, &mut order, more);
    }
    println!("{reached} orders of events of a relay");
    assert!(reached > 50_000, "{reached} orders");
}
