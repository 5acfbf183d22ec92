//! Every order of events, up to a bound, against the conclusion.

use super::*;

/// The kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Behind a guardian, with a mark.
    Marked,
    /// Behind a guardian, without one.
    Unmarked,
    /// In a process group.
    Group,
}

/// A step that the host was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Empty,
    Search,
}

/// One of the events that may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Reported { executed: bool },
    GuardianEnded,
    Again,
    Emptied { fails: bool },
    Awaits,
    Searched { fails: bool },
}

const INPUTS: [Input; 9] = [
    Input::Reported { executed: true },
    Input::Reported { executed: false },
    Input::GuardianEnded,
    Input::Again,
    Input::Emptied { fails: false },
    Input::Emptied { fails: true },
    Input::Awaits,
    Input::Searched { fails: false },
    Input::Searched { fails: true },
];

fn event(input: Input) -> Event {
    match input {
        Input::Reported { executed } => Event::Reported(FinalReport {
            exit: executed.then_some(ExitStatus::Code(0)),
            gone: Gone::proven_by(Evidence::Reaped),
            emptied: false,
            executed,
        }),
        Input::GuardianEnded => Event::GuardianEnded("was killed (signal 9)".to_owned()),
        Input::Again => Event::Again,
        Input::Emptied { fails } => Event::Emptied(Emptied {
            main: Main::Ended,
            holder: match fails {
                true => Holder::Failed("EMFILE".to_owned()),
                false => Holder::Empty(Evidence::CgroupEmpty),
            },
            inside: Inside::default(),
        }),
        Input::Awaits => Event::Awaits(Some(Remnant::process(7, "exiting"))),
        Input::Searched { fails: true } => Event::Searched(Err("EMFILE".to_owned())),
        Input::Searched { fails: false } => Event::Searched(Ok(Found {
            ended: Inside::default(),
            adopted: None,
        })),
    }
}

/// Follows one order of events, and checks each reaction. Returns the number of events that were
/// out of place.
fn follow(order: &[Input], of: Of) -> usize {
    let (is_group, is_marked) = (of == Of::Group, of == Of::Marked);
    let mut strays = 0;
    let mut conclusion = match of {
        Of::Group => Conclusion::of_group(),
        Of::Marked | Of::Unmarked => Conclusion::guarded(is_marked),
    };
    let mut asked = None;
    // A group has no guardian to wait for.
    let (mut has_ended, mut reported, mut published) = (is_group, None, None);
    let (mut is_empty, mut is_clear) = (false, false);
    for &input in order {
        // A step was answered, or the event is out of place and must change nothing.
        let answers = match input {
            Input::Emptied { .. } => asked == Some(Asked::Empty),
            Input::Awaits | Input::Searched { .. } => asked == Some(Asked::Search),
            Input::Again => published == Some(false),
            Input::Reported { .. } => reported.is_none() && (is_group || !has_ended),
            Input::GuardianEnded => !has_ended,
        };
        match input {
            _ if !answers => strays += 1,
            Input::Reported { executed } => reported = Some(executed),
            Input::GuardianEnded => has_ended = true,
            Input::Emptied { fails } => (asked, is_empty) = (None, !fails),
            Input::Searched { fails } => (asked, is_clear) = (None, !fails),
            Input::Again => (published, is_empty, is_clear) = (None, false, false),
            Input::Awaits => {}
        }
        let acts = conclusion.on(event(input));
        let is_quiet = acts.exit.is_none() && acts.proof.is_none() && acts.next.is_none();
        assert!(answers || is_quiet, "{order:?}: {input:?} led to {acts:?}");
        match acts.next {
            Some(Next::Empty { .. }) => {
                assert!(reported.is_some() && asked.is_none(), "{order:?}");
                asked = Some(Asked::Empty);
            }
            Some(Next::TakeOver) => {
                assert!(
                    has_ended && reported.is_none() && asked.is_none(),
                    "{order:?}"
                );
                asked = Some(Asked::Empty);
            }
            Some(Next::Search { everywhere }) => {
                assert!(is_marked && asked.is_none(), "{order:?}");
                assert_eq!(everywhere, reported.is_none(), "{order:?}");
                // Nothing can hide that was never started, or is known to be left.
                let may_hide = reported.is_none_or(|executed| executed && is_empty);
                assert!(may_hide, "{order:?}");
                asked = Some(Asked::Search);
            }
            Some(Next::AwaitGuardian(_)) => assert!(!has_ended && asked.is_none(), "{order:?}"),
            None => {}
        }
        match acts.proof {
            Some(Proof::Gone(gone)) => {
                assert!(has_ended && is_empty && asked.is_none(), "{order:?}");
                assert_eq!(published, None, "{order:?}: {gone:?}");
                let needs_search = is_marked && reported != Some(false);
                assert!(is_clear || !needs_search, "{order:?}: {gone:?}");
                let is_reaped = gone.evidence.contains(&Evidence::Reaped);
                assert_eq!(is_reaped, reported.is_some(), "{order:?}: {gone:?}");
                assert!(reported.is_some() || is_marked, "{order:?}: {gone:?}");
                published = Some(true);
            }
            Some(Proof::Lost(why)) => {
                assert!(asked.is_none() && published.is_none(), "{order:?}");
                let says_how = why.contains("was killed (signal 9)");
                assert_eq!(says_how, reported.is_none(), "{order:?}: {why}");
                published = Some(false);
            }
            Some(Proof::Awaits(_)) => assert_eq!(asked, Some(Asked::Search), "{order:?}"),
            None => {}
        }
    }
    // Without an answer to wait for, there is a conclusion.
    let has_begun = reported.is_some() || (has_ended && !is_group);
    if has_begun && has_ended && asked.is_none() {
        assert!(published.is_some(), "{order:?} ends without a conclusion");
    }
    strays
}

/// Follows all orders that begin so. One event out of place must change nothing that follows.
fn follow_all(order: &mut Vec<Input>, of: Of, reached: &mut usize) {
    const LENGTH: usize = 7;
    let strays = follow(order, of);
    *reached += 1;
    if order.len() == LENGTH || strays > 1 {
        return;
    }
    for input in INPUTS {
        order.push(input);
        follow_all(order, of, reached);
        order.pop();
    }
}

#[test]
fn every_order_of_events_ends_in_one_conclusion() {
    for (of, least) in [
        (Of::Marked, 10_000),
        (Of::Unmarked, 10_000),
        // Most events are out of place.
        (Of::Group, 3_000),
    ] {
        let mut reached = 0;
        follow_all(&mut Vec::new(), of, &mut reached);
        assert!(reached > least, "{reached} orders");
    }
}

#[test]
fn a_report_that_comes_after_the_take_over_changes_nothing() {
    let mut conclusion = Conclusion::guarded(true);
    assert!(!conclusion.has_begun());
    conclusion.on(event(Input::GuardianEnded));
    let acts = conclusion.on(event(Input::Reported { executed: true }));
    assert!(acts.next.is_none() && acts.proof.is_none() && acts.exit.is_none());
    assert!(conclusion.has_begun());
}

#[test]
fn an_exit_is_published_before_the_search() {
    let empty = Holder::Empty(Evidence::CgroupEmpty);
    let ended = Some(ExitStatus::Unknown);
    for (main, holder, exit) in [
        (Main::Ended, Holder::None, ended),
        (Main::Inside, empty.clone(), ended),
        (Main::Inside, Holder::None, None),
        (Main::Outside, empty, None),
    ] {
        let acts = taken_over(main, holder);
        assert_eq!(acts.exit, exit, "{main:?}");
        assert!(matches!(acts.next, Some(Next::Search { .. })), "{main:?}");
    }
    let acts = taken_over(Main::InitEnded, Holder::None);
    let Some(Proof::Gone(gone)) = acts.proof else {
        panic!("{acts:?}");
    };
    assert_eq!(gone.evidence, [Evidence::NamespaceEnded]);
}

/// The reaction to the emptied holder of a server whose guardian was killed.
fn taken_over(main: Main, holder: Holder) -> Acts {
    let mut conclusion = Conclusion::guarded(true);
    conclusion.on(event(Input::GuardianEnded));
    let inside = Inside::default();
    let emptied = Emptied {
        main,
        holder,
        inside,
    };
    conclusion.on(Event::Emptied(emptied))
}

#[test]
fn ended_processes_are_counted_and_some_named() {
    let all = (0..NAMES_MAX as u32 + 3).map(|pid| (pid, "helper".to_owned()));
    let gone = Inside::these(all).swept_from(Gone::proven_by(Evidence::Reaped));
    assert_eq!(gone.swept.len(), NAMES_MAX);
    assert_eq!(gone.swept_count, NAMES_MAX + 3);
}
