//! Requests in flight.

use super::*;

fn without_key(number: u64, method: Method) -> FromHost {
    let FromHost::Request(request) = request(number, method, None) else {
        unreachable!()
    };
    let key = None;
    FromHost::Request(Request { key, ..request })
}

#[test]
fn answers_to_handshakes_and_lists_are_of_interest() {
    let mut relay = Relay::new(policy());
    relay.on_host(secs(0), &line("init"), without_key(0, Method::Initialize));
    let list = request(1, Method::List("tools"), None);
    relay.on_host(secs(0), &line("list"), list);
    relay.on_host(secs(0), &line("call"), call(2));
    let interest = [0, 1, 2, 3].map(|number| relay.is_of_interest(&id(number)));
    assert_eq!(interest, [true, true, false, false]);
    // The handshake is repeated to the next server by the relay itself.
    let mut relay = asleep();
    relay.on_host(secs(1), &line("call"), call(2));
    assert!(relay.is_of_interest(&id(0)));
}

#[test]
fn a_handshake_cannot_be_cancelled() {
    let mut relay = Relay::new(policy());
    relay.on_host(secs(0), &line("init"), request(0, Method::Initialize, None));
    relay.on_host(secs(0), &line("call"), call(2));
    for number in [0, 2] {
        relay.on_host(secs(0), b"n\n", FromHost::Cancelled(id(number)));
    }
    let in_flight = [0, 2].map(|number| relay.flight.has(&id(number)));
    assert_eq!(in_flight, [true, false]);
}

#[test]
fn a_queued_level_or_list_is_not_repeated_beside_it() {
    let mut relay = asleep();
    relay.on_host(secs(1), &line("call"), call(2));
    let level = Method::SetLevel { is_valid: true };
    relay.on_host(secs(1), &line("level"), request(10, level, None));
    let list = request(1, Method::List("tools"), None);
    relay.on_host(secs(1), &line("list"), list);
    let todo = relay.on_server(secs(1), answer(0, Some(known(0))));
    let queued = Action::ToServer(b"call\nlevel\nlist\n".as_slice().into());
    assert_eq!(todo[1..], [tell("initialized"), queued]);
}
