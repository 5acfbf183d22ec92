//! The decisions, in virtual time.

mod bounds;
mod ends;
mod flight;
mod orders;
mod random;
mod restart;
mod suspend;

use std::time::Duration;

use super::events::{
    Action, Answer, Event, Exit, FromHost, FromServer, Method, Policy, Request, Response, Work,
};
use super::*;

pub(super) const IDLE: Duration = Duration::from_secs(600);
pub(super) const GRACE: Duration = Duration::from_secs(2);

fn policy() -> Policy {
    Policy {
        lazy: true,
        restart: true,
        idle: Some(IDLE),
        idle_legacy: Some(IDLE),
        grace: GRACE,
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn id(number: u64) -> Id {
    Id::of(&number.to_string())
}

/// A line of the host that says its name.
fn line(name: &str) -> Vec<u8> {
    format!("{name}\n").into_bytes()
}

fn tell(name: &str) -> Action {
    Action::ToServer(line(name).into())
}

const TEXT: &[u8] = b"{\"result\":{\"cached\":1}}";

/// The answer of the cache to this request.
fn cached(number: u64) -> Action {
    Action::ToHost(super::answer(number.to_string().as_bytes(), TEXT))
}

fn stored(key: u8) -> Action {
    Action::Store([key; 32], TEXT.into())
}

impl Relay {
    fn on_host(&mut self, now: Duration, line: &[u8], what: FromHost) -> Vec<Action> {
        self.on(now, Event::Host(line, what))
    }

    fn on_server(&mut self, now: Duration, what: FromServer) -> Vec<Action> {
        self.on(now, Event::Server(b"", what))
    }

    fn on_progress(&mut self, now: Duration) {
        self.on(now, Event::Progress);
    }

    fn on_time(&mut self, now: Duration) -> Vec<Action> {
        self.on(now, Event::Time)
    }

    fn on_host_closed(&mut self, now: Duration) -> Vec<Action> {
        self.on(now, Event::HostClosed)
    }

    fn on_leave(&mut self) -> Vec<Action> {
        self.on(self.now, Event::Leave)
    }

    fn on_gone(&mut self, now: Duration, how: &str) -> Vec<Action> {
        self.on(now, Event::Gone(how))
    }

    fn on_lost(&mut self, how: &str) -> Vec<Action> {
        self.on(self.now, Event::Lost(how))
    }
}

fn known(digest: u8) -> Answer {
    let version = Some(Box::from("\"2025-11-25\""));
    Answer {
        text: TEXT.into(),
        digest: [digest; 32],
        version,
        has_logging: true,
        error: None,
    }
}

pub(super) fn request(number: u64, method: Method, cached: Option<Answer>) -> FromHost {
    let key = matches!(
        method,
        Method::Initialize | Method::List(_) | Method::Discover
    );
    FromHost::Request(Request {
        id: id(number),
        text: number.to_string().as_bytes().into(),
        is_modern: false,
        key: key.then_some(
            [match method {
                Method::Initialize => 1,
                Method::Discover => 2,
                _ => 3,
            }; 32],
        ),
        method,
        cached,
    })
}

fn call(number: u64) -> FromHost {
    request(number, Method::Other, None)
}

pub(super) fn answer(number: u64, known: Option<Answer>) -> FromServer {
    FromServer::Response(Response {
        id: id(number),
        is_error: false,
        is_task: false,
        has_next: false,
        answer: known,
    })
}

/// A relay whose host was answered from the cache: `initialize` 0, a list 1.
fn asleep() -> Relay {
    let mut relay = Relay::new(policy());
    let init = request(0, Method::Initialize, Some(known(0)));
    assert_eq!(relay.on_host(secs(0), &line("init"), init), [cached(0)]);
    assert_eq!(
        relay.on_host(secs(0), &line("initialized"), FromHost::Initialized),
        []
    );
    let list = request(1, Method::List("tools"), Some(known(7)));
    assert_eq!(relay.on_host(secs(0), &line("list"), list), [cached(1)]);
    relay
}

/// The same, after a first call (2), whose server runs and has nothing to do.
fn running() -> Relay {
    let mut relay = asleep();
    assert_eq!(
        relay.on_host(secs(1), &line("call"), call(2)),
        [Action::Start, tell("init")]
    );
    let todo = relay.on_server(secs(1), answer(0, Some(known(0))));
    assert_eq!(
        todo,
        [stored(1), tell("initialized"), tell("call"), tell("list")]
    );
    assert_eq!(relay.on_server(secs(1), answer(1, Some(known(7)))), []);
    assert_eq!(relay.on_server(secs(2), answer(2, None)), [Action::Pass]);
    relay
}

fn says(todo: &[Action]) -> Vec<String> {
    let said = todo.iter().filter_map(|action| match action {
        Action::ToHost(line) => Some(String::from_utf8(line.clone()).unwrap()),
        _ => None,
    });
    said.collect()
}

#[test]
fn the_cache_answers_until_there_is_something_to_do() {
    let mut relay = asleep();
    let ping = relay.on_host(secs(0), b"", request(5, Method::Ping, None));
    assert_eq!(
        says(&ping),
        ["{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}\n"]
    );
    assert_eq!(relay.on_host(secs(0), b"x", FromHost::Notification), []);
    assert_eq!(relay.deadline(), None);
    assert_eq!(relay.on_host_closed(secs(0)), [Action::Exit(Exit::Success)]);
}

#[test]
fn what_comes_during_a_handshake_is_given_after_it_in_order() {
    let mut relay = asleep();
    relay.on_host(secs(1), &line("a"), call(2));
    assert_eq!(
        relay.on_host(secs(1), &line("b"), FromHost::Notification),
        []
    );
    assert_eq!(relay.on_host(secs(1), &line("c"), call(3)), []);
    let todo = relay.on_server(secs(1), answer(0, Some(known(0))));
    assert_eq!(
        todo[1..3],
        [
            tell("initialized"),
            Action::ToServer(b"a\nb\nc\n".as_slice().into())
        ]
    );
}

#[test]
fn without_a_cache_the_server_is_spoken_to_at_once_and_its_answers_are_kept() {
    let mut relay = Relay::new(policy());
    let todo = relay.on_host(secs(0), &line("init"), request(0, Method::Initialize, None));
    assert_eq!(todo, [Action::Start, tell("init")]);
    assert_eq!(
        relay.on_server(secs(0), answer(0, Some(known(0)))),
        [Action::Pass, stored(1)]
    );
    assert_eq!(
        relay.on_host(secs(0), &line("initialized"), FromHost::Initialized),
        [Action::Pass]
    );
    let list = request(1, Method::List("tools"), Some(known(9)));
    assert_eq!(
        relay.on_host(secs(0), &line("list"), list),
        [Action::Pass],
        "it runs: it is asked"
    );
    assert_eq!(
        relay.on_server(secs(0), answer(1, Some(known(7)))),
        [Action::Pass, stored(3)]
    );
}

#[test]
fn an_unused_server_is_ended_and_started_again() {
    let mut relay = running();
    assert_eq!(relay.deadline(), Some(secs(2) + IDLE));
    assert_eq!(relay.on_time(secs(1) + IDLE), []);
    assert_eq!(
        relay.on_server(secs(9), FromServer::Other),
        [Action::Pass],
        "a log line is no use"
    );
    assert_eq!(relay.on_time(secs(2) + IDLE), [Action::Close]);
    assert_eq!(relay.on_host(secs(603), &line("next"), call(3)), []);
    assert_eq!(
        relay.on_gone(secs(604), "it ended"),
        [Action::Start, tell("init")]
    );
    let todo = relay.on_server(secs(604), answer(0, Some(known(0))));
    assert_eq!(todo[1..], [tell("initialized"), tell("next"), tell("list")]);
}

#[test]
fn nothing_that_is_in_use_is_ended() {
    let uses: [fn(&mut Relay); 5] = [
        |relay| drop(relay.on_host(secs(3), &line("x"), call(9))),
        |relay| drop(relay.on_server(secs(3), FromServer::Request(id(0), Box::from(&b"0"[..])))),
        |relay| {
            relay.on_host(secs(3), &line("x"), request(9, Method::Lasting, None));
            relay.on_server(secs(3), answer(9, None));
        },
        |relay| drop(relay.on_host(secs(3), &line("x"), FromHost::Batch)),
        |relay| drop(relay.on_host(secs(3), &line("x"), request(9, Method::Ping, None))),
    ];
    for (number, uses) in uses.into_iter().enumerate() {
        let mut relay = running();
        uses(&mut relay);
        assert_eq!(
            (relay.deadline(), relay.on_time(secs(9999))),
            (None, vec![]),
            "{number}"
        );
    }
    let mut relay = running();
    relay.on_server(secs(100), FromServer::Progress);
    assert_eq!(relay.deadline(), Some(secs(100) + IDLE));
}

#[test]
fn an_older_server_is_ended_only_where_the_user_says_so() {
    let mut relay = running();
    relay.policy.idle_legacy = None;
    assert_eq!(relay.deadline(), None);
    let mut relay = Relay::new(Policy {
        idle_legacy: None,
        ..policy()
    });
    let FromHost::Request(request) = call(1) else {
        unreachable!()
    };
    let modern = FromHost::Request(Request {
        is_modern: true,
        ..request
    });
    assert_eq!(
        relay.on_host(secs(0), &line("call"), modern),
        [Action::Start, tell("call")]
    );
    relay.on_server(secs(1), answer(1, None));
    assert_eq!(relay.deadline(), Some(secs(1) + IDLE));
}

#[test]
fn a_list_that_has_changed_is_told() {
    for list in ["tools", "prompts", "resources"] {
        let mut relay = asleep();
        relay.on_host(
            secs(0),
            &line("list"),
            request(1, Method::List(list), Some(known(7))),
        );
        relay.on_host(secs(1), &line("call"), call(2));
        relay.on_server(secs(1), answer(0, Some(known(0))));
        let todo = relay.on_server(secs(1), answer(1, Some(known(8))));
        assert_eq!(todo[0], stored(3));
        assert_eq!(
            says(&todo),
            [format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{list}/list_changed\"}}\n"
            )]
        );
    }
    let mut relay = asleep();
    relay.on_host(secs(1), &line("call"), call(2));
    relay.on_server(secs(1), answer(0, Some(known(0))));
    let paged = FromServer::Response(Response {
        id: id(1),
        is_error: false,
        is_task: false,
        has_next: true,
        answer: Some(known(7)),
    });
    let todo = relay.on_server(secs(1), paged);
    assert_eq!((&todo[0], todo.len()), (&Action::Forget([3; 32]), 2));
}

#[test]
fn a_handshake_that_is_refused_or_different_ends_the_server() {
    let mut relay = asleep();
    relay.on_host(secs(1), &line("call"), call(2));
    let refused = FromServer::Response(Response {
        id: id(0),
        is_error: true,
        is_task: false,
        has_next: false,
        answer: Some(known(0)),
    });
    let todo = relay.on_server(secs(1), refused);
    assert_eq!((says(&todo).len(), todo.last()), (1, Some(&Action::Close)));
    let mut relay = asleep();
    relay.on_host(secs(1), &line("call"), call(2));
    let other = Answer {
        digest: [1; 32],
        version: Some(Box::from("\"2026\"")),
        ..known(0)
    };
    let todo = relay.on_server(secs(1), answer(0, Some(other)));
    assert_eq!(todo[0], stored(1));
    assert_eq!(todo.last(), Some(&Action::Exit(Exit::OtherVersion)));
    assert_eq!(
        relay.on_gone(secs(2), "it ended"),
        [Action::Exit(Exit::AsServer)]
    );
}

#[test]
fn a_level_is_said_again() {
    let mut relay = running();
    let level = Method::SetLevel { is_valid: true };
    relay.on_host(secs(3), &line("level"), request(10, level, None));
    relay.on_server(secs(3), answer(10, None));
    assert_eq!(relay.on_gone(secs(4), "it ended"), []);
    relay.on_host(secs(5), &line("x"), call(20));
    let todo = relay.on_server(secs(5), answer(0, Some(known(0))));
    assert_eq!(
        todo[1..],
        [tell("initialized"), tell("level"), tell("x"), tell("list")]
    );
    assert_eq!(
        relay.on_server(secs(5), answer(10, None)),
        [],
        "the host has had its answer"
    );
}

#[test]
fn a_level_is_answered_while_asleep_and_told_at_the_start() {
    for is_valid in [true, false] {
        let mut relay = asleep();
        let level = request(2, Method::SetLevel { is_valid }, None);
        let todo = relay.on_host(secs(1), &line("level"), level);
        match is_valid {
            false => assert_eq!(todo, [Action::Start, tell("init")]),
            true => {
                assert_eq!(
                    todo,
                    [Action::ToHost(super::answer(b"2", b"{\"result\":{}}"))]
                );
                relay.on_host(secs(2), &line("call"), call(3));
                let todo = relay.on_server(secs(2), answer(0, Some(known(0))));
                let told = [tell("initialized"), tell("level"), tell("call")];
                assert_eq!(todo[1..4], told);
            }
        }
    }
    let mut relay = Relay::new(policy());
    let silent = Answer {
        has_logging: false,
        ..known(0)
    };
    relay.on_host(
        secs(0),
        &line("init"),
        request(0, Method::Initialize, Some(silent)),
    );
    let level = request(2, Method::SetLevel { is_valid: true }, None);
    let todo = relay.on_host(secs(1), &line("level"), level);
    assert_eq!(todo, [Action::Start, tell("init")], "it may refuse");
}

#[test]
fn a_server_is_started_at_once_unless_its_start_is_lazy() {
    for (lazy, started) in [(false, vec![Action::Start]), (true, vec![])] {
        let mut relay = Relay::new(Policy { lazy, ..policy() });
        assert_eq!(relay.on(secs(0), Event::Begin), started);
    }
}

#[test]
fn a_relay_answers_and_holds_lines_until_its_server_is_ready() {
    assert_eq!(Relay::new(policy()).handshake_key(), None);
    let mut relay = asleep();
    assert_eq!(relay.handshake_key(), Some(&[1; 32]));
    assert!(relay.answers() && !relay.passes());
    relay.on_host(secs(1), &line("call"), call(2));
    relay.on_host(secs(1), &line("x"), call(3));
    assert_eq!((relay.held(), relay.answers()), (7, true));
    relay.on_server(secs(1), answer(0, Some(known(0))));
    assert_eq!((relay.held(), relay.answers()), (0, false));
}

#[test]
fn the_last_server_is_one_without_a_successor() {
    for restart in [true, false] {
        let mut relay = running();
        relay.policy.restart = restart;
        assert_eq!(relay.is_last(), !restart);
        // Ended because it is idle, it has one in any case.
        assert_eq!(relay.on_time(secs(2) + IDLE), [Action::Close]);
        assert!(!relay.is_last());
        relay.on_leave();
        assert!(relay.is_last());
    }
    let mut relay = running();
    relay.on_host_closed(secs(3));
    assert!(relay.is_last());
}
