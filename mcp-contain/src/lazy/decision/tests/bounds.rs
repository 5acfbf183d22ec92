//! How much is remembered.

use super::*;
use crate::lazy::decision::flight::{KEPT, REQUESTS};

fn question(number: u64) -> FromServer {
    FromServer::Request(id(number), number.to_string().as_bytes().into())
}

/// A request of this number, whose id takes this many bytes.
fn long(number: u64, len: usize) -> FromHost {
    let text = format!("\"{number}-{}\"", "x".repeat(len));
    let FromHost::Request(request) = call(number) else {
        unreachable!()
    };
    FromHost::Request(Request {
        id: Id::of(&text),
        text: text.as_bytes().into(),
        ..request
    })
}

#[test]
fn requests_of_the_host_are_refused_beyond_their_number_or_their_bytes() {
    let mut relay = running();
    let number = u64::try_from(REQUESTS.number).unwrap();
    for number in 0..number {
        assert_eq!(
            relay.on_host(secs(3), b"x\n", call(100 + number)),
            [Action::Pass]
        );
    }
    assert!(!relay.answers());
    let refused = says(&relay.on_host(secs(3), b"x\n", call(7)));
    assert!(
        refused[0].starts_with("{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32603,"),
        "{refused:?}"
    );
    assert!(refused[0].contains("4096 requests, or 4 MiB of them"));
    assert!(relay.answers(), "and the host has to read that");
    // A cancelled one and an answered one make room again.
    relay.on_host(secs(3), b"n\n", FromHost::Cancelled(id(100)));
    assert_eq!(relay.on_server(secs(3), answer(101, None)), [Action::Pass]);
    for number in [7, 8] {
        assert_eq!(relay.on_host(secs(3), b"x\n", call(number)), [Action::Pass]);
    }
    assert_eq!(says(&relay.on_host(secs(3), b"x\n", call(9))).len(), 1);

    let mut relay = running();
    let fit = REQUESTS.bytes / (1 << 20) - 1;
    for number in 0..fit as u64 {
        assert_eq!(
            relay.on_host(secs(3), b"x\n", long(number, 1 << 20)),
            [Action::Pass]
        );
    }
    assert_eq!(
        says(&relay.on_host(secs(3), b"x\n", long(9, 1 << 20))).len(),
        1
    );
    assert_eq!(
        relay.on_host(secs(3), b"x\n", call(9)),
        [Action::Pass],
        "a small one"
    );
}

#[test]
fn questions_of_a_server_are_refused_beyond_their_number() {
    let mut relay = running();
    let number = u64::try_from(REQUESTS.number).unwrap();
    for number in 0..number {
        assert_eq!(relay.on_server(secs(3), question(number)), [Action::Pass]);
    }
    let refused = relay.on_server(secs(3), question(number));
    assert!(matches!(&refused[..], [Action::Reply(_)]), "{refused:?}");
    relay.on_host(secs(3), b"r\n", FromHost::Response(id(5)));
    assert_eq!(relay.on_server(secs(3), question(number)), [Action::Pass]);
}

#[test]
fn lines_that_are_said_again_are_remembered_up_to_their_bytes() {
    // A list of its own for each number.
    let list = |number: u8, known| {
        let FromHost::Request(request) = request(number.into(), Method::List("tools"), known)
        else {
            unreachable!()
        };
        FromHost::Request(Request {
            key: Some([number; 32]),
            ..request
        })
    };
    let line = vec![b'x'; KEPT.bytes / 4];
    let mut relay = asleep();
    for number in 10..20 {
        assert_eq!(
            relay.on_host(secs(1), &line, list(number, Some(known(number)))),
            [cached(number.into())]
        );
    }
    let bytes: usize = relay.seen.values().map(|seen| seen.line.len()).sum();
    assert!(bytes <= KEPT.bytes && relay.seen.len() == 4, "{bytes}");
    // One that is too long for that is passed on as any other request.
    let mut relay = running();
    let line = vec![b'x'; KEPT.bytes + 1];
    assert_eq!(
        relay.on_host(secs(3), &line, list(10, None)),
        [Action::Pass]
    );
    assert_eq!(
        relay.on_server(secs(3), answer(10, Some(known(1)))),
        [Action::Pass]
    );
}
