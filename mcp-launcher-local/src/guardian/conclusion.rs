//! The state machine of a server's end, from the guardian's final report or its end without one to
//! the proof. Pure: callbacks on any thread only carry events, and [`conclude`](super::conclude)
//! acts.
//!
//! ```text
//! Running ──Reported | GuardianEnded──▶ Emptying ──Emptied──▶ Searching ──Searched──▶ Settled
//!                                          ▲                                             │
//!                                          └────Again──── Lost ◀── no proof    GuardianEnded
//!                                                                                        ▼
//!                                                                                     Proven
//! ```

use std::borrow::Cow;
use std::mem;

use mcp_lifecycle_core::launch::{Evidence, ExitStatus, Gone, Remnant};

use super::decide::{self, Adopted, Cgroup, Findings, Main, Marked};
use crate::ending::Proof;
use crate::orphans::Where;

/// The number of swept processes that are named; more are counted.
const NAMES_MAX: usize = 64;

/// The guardian's final report.
#[derive(Debug, Clone)]
pub(super) struct FinalReport {
    pub(super) exit: Option<ExitStatus>,
    pub(super) gone: Gone,
    /// `true` if the guardian has removed the cgroup.
    pub(super) emptied: bool,
    /// `true` if there was a server. Where nothing was executed, no process can have escaped.
    pub(super) executed: bool,
}

/// The result of emptying the server's cgroup, and what the host knew before.
#[derive(Debug, Clone)]
pub(super) struct Emptied {
    /// The main process; used only without a report.
    pub(super) main: Main,
    pub(super) cgroup: Cgroup,
    pub(super) inside: Inside,
}

/// The result of a search.
#[derive(Debug)]
pub(super) struct Found {
    /// The processes that were found and sent SIGKILL.
    pub(super) ended: Inside,
    /// Empty unless the search was everywhere.
    pub(super) adopted: Adopted,
}

/// The processes that the host has ended: inside of a cgroup, or found by identity.
#[derive(Debug, Clone, Default)]
pub(super) struct Inside {
    named: Vec<Remnant>,
    count: usize,
}

/// A fact that a callback carries to the conclusion.
#[derive(Debug)]
pub(super) enum Event {
    Reported(FinalReport),
    /// The guardian has ended, in this way.
    GuardianEnded(String),
    Emptied(Emptied),
    /// The search takes longer: it waits for this exiting process, if there is one.
    Awaits(Option<Remnant>),
    Searched(Result<Found, String>),
    /// An order to look again, after a lost proof.
    Again,
}

/// The reaction to an event: what to publish, then what to do.
#[derive(Debug, Default)]
pub(super) struct Acts {
    pub(super) exit: Option<ExitStatus>,
    pub(super) proof: Option<Proof>,
    pub(super) next: Option<Next>,
}

/// The next step of the host, whose result is another event.
#[derive(Debug)]
pub(super) enum Next {
    /// The guardian has reaped all descendants: empty the cgroup, if it has not.
    Empty {
        exit: Option<ExitStatus>,
        emptied: bool,
    },
    /// The guardian has left no report: end what can be found, and empty the cgroup.
    TakeOver,
    Search(Where),
    /// The proof waits for the guardian's end, which may have come already; publish the exit.
    AwaitGuardian(Option<ExitStatus>),
}

#[derive(Debug, Default)]
enum Step {
    #[default]
    Running,
    Emptying,
    Searching(Emptied),
    /// The proof is there, and waits for the guardian's end: a proof implies that the guardian has
    /// gone too.
    Settled(Option<ExitStatus>, Gone),
    Lost,
    Proven,
}

/// The conclusion on one server's end.
#[derive(Debug)]
pub(super) struct Conclusion {
    /// Its processes carry a mark, so that they can be searched for.
    is_marked: bool,
    /// Kept also while the search fails.
    report: Option<FinalReport>,
    guardian_end: Option<String>,
    step: Step,
}

const UNSEARCHED: &str = "the guardian has reaped everybody, but those whom the server left in \
                          other PID namespaces could not be searched for";

impl Conclusion {
    pub(super) fn new(is_marked: bool) -> Self {
        Self {
            is_marked,
            report: None,
            guardian_end: None,
            step: Step::Running,
        }
    }

    /// Returns whether it has begun.
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self.step, Step::Running)
    }

    /// Takes an event in. One that does not belong to the current step changes nothing.
    pub(super) fn on(&mut self, event: Event) -> Acts {
        match (mem::take(&mut self.step), event) {
            (Step::Running, Event::Reported(report)) => {
                self.report = Some(report);
                self.begin()
            }
            (Step::Running, Event::GuardianEnded(how)) => {
                self.guardian_end = Some(how);
                self.begin()
            }
            (Step::Settled(exit, gone), Event::GuardianEnded(how)) => {
                self.guardian_end = Some(how);
                self.settle(exit, gone)
            }
            (step, Event::GuardianEnded(how)) => {
                self.guardian_end.get_or_insert(how);
                self.step = step;
                Acts::default()
            }
            (Step::Lost, Event::Again) => self.begin(),
            (Step::Emptying, Event::Emptied(emptied)) => self.emptied(emptied),
            (Step::Searching(emptied), Event::Awaits(process)) => {
                self.step = Step::Searching(emptied);
                Acts {
                    exit: self.report.as_ref().and_then(|report| report.exit),
                    proof: process.map(Proof::Awaits),
                    next: None,
                }
            }
            (Step::Searching(emptied), Event::Searched(found)) => self.judge(emptied, found),
            (step, _) => {
                self.step = step;
                Acts::default()
            }
        }
    }

    fn begin(&mut self) -> Acts {
        self.step = Step::Emptying;
        let next = match &self.report {
            Some(FinalReport { exit, emptied, .. }) => Next::Empty {
                exit: *exit,
                emptied: *emptied,
            },
            None => Next::TakeOver,
        };
        Acts::then(None, next)
    }

    fn emptied(&mut self, emptied: Emptied) -> Acts {
        let Emptied { main, cgroup, .. } = &emptied;
        let (exit, place, may_hide) = match &self.report {
            // The guardian and an empty cgroup show no process that was orphaned in a foreign PID
            // namespace and has left the cgroup.
            Some(report) => {
                let may_hide = report.executed && decide::concluded(cgroup).is_ok();
                (None, Where::Foreign, may_hide)
            }
            // The exit is published now: the search takes as long as the kernel does.
            None => {
                let is_over =
                    *main == Main::Ended || *main == Main::Inside && *cgroup == Cgroup::Empty;
                let exit = is_over.then_some(ExitStatus::Unknown);
                (exit, Where::Everywhere, *main != Main::InitEnded)
            }
        };
        if self.is_marked && may_hide {
            self.step = Step::Searching(emptied);
            return Acts::then(exit, Next::Search(place));
        }
        let unlooked = Found {
            ended: Inside::default(),
            adopted: Adopted::Unknown("nobody was looked at".to_owned()),
        };
        self.judge_by(emptied, None, Ok(unlooked))
    }

    fn judge(&mut self, emptied: Emptied, found: Result<Found, String>) -> Acts {
        self.judge_by(emptied, Some(Evidence::NoneMarked), found)
    }

    /// Judges by the report and the search; `searched` is the evidence of one that was made.
    fn judge_by(
        &mut self,
        emptied: Emptied,
        searched: Option<Evidence>,
        found: Result<Found, String>,
    ) -> Acts {
        let Some(report) = &self.report else {
            return self.judge_alone(emptied, found);
        };
        let exit = report.exit;
        let proof = decide::concluded(&emptied.cgroup).and_then(|evidence| {
            let found = found.map_err(|error| Cow::Owned(format!("{UNSEARCHED}: {error}")))?;
            let gone = emptied.inside.swept_from(report.gone.clone());
            let gone = found.ended.swept_from(gone);
            Ok(evidence
                .into_iter()
                .chain(searched)
                .fold(gone, Gone::evidence))
        });
        match proof {
            Ok(gone) => self.settle(exit, gone),
            Err(why) => self.lose(exit, why),
        }
    }

    /// Judges without a report.
    fn judge_alone(&mut self, emptied: Emptied, found: Result<Found, String>) -> Acts {
        let (marked, adopted) = match found {
            Ok(Found { ended, adopted }) if ended.count == 0 => (Marked::Nobody, adopted),
            Ok(Found { ended, adopted }) => (Marked::Somebody(ended.count), adopted),
            Err(error) => {
                let adopted = Adopted::Unknown("nobody was looked at".to_owned());
                (Marked::Unknown(error), adopted)
            }
        };
        let findings = Findings {
            main: emptied.main,
            cgroup: emptied.cgroup,
            marked,
            adopted,
        };
        let exit = findings.main_has_ended().then_some(ExitStatus::Unknown);
        match findings.verdict() {
            Ok(evidence) => {
                let mut evidence = evidence.into_iter();
                let first = evidence.next().unwrap_or(Evidence::CgroupEmpty);
                let gone = evidence.fold(Gone::proven_by(first), Gone::evidence);
                self.settle(exit, emptied.inside.swept_from(gone))
            }
            Err(why) => {
                let how = self.guardian_end.as_deref().unwrap_or("ended");
                let why = format!("the guardian {how}; {why}");
                self.lose(exit, why.into())
            }
        }
    }

    fn settle(&mut self, exit: Option<ExitStatus>, gone: Gone) -> Acts {
        if self.guardian_end.is_none() {
            self.step = Step::Settled(exit, gone);
            return Acts::then(None, Next::AwaitGuardian(exit));
        }
        self.step = Step::Proven;
        Acts {
            exit,
            proof: Some(Proof::Gone(gone)),
            next: None,
        }
    }

    fn lose(&mut self, exit: Option<ExitStatus>, why: Cow<'static, str>) -> Acts {
        self.step = Step::Lost;
        Acts {
            exit,
            proof: Some(Proof::Lost(why)),
            next: None,
        }
    }
}

impl Acts {
    fn then(exit: Option<ExitStatus>, next: Next) -> Self {
        Self {
            exit,
            proof: None,
            next: Some(next),
        }
    }
}

impl Inside {
    /// Names the first of these processes, and counts the rest.
    pub(super) fn these(all: impl ExactSizeIterator<Item = (u32, String)>) -> Self {
        Self {
            count: all.len(),
            named: all
                .take(NAMES_MAX)
                .map(|(pid, name)| Remnant::process(pid, name))
                .collect(),
        }
    }

    fn swept_from(self, gone: Gone) -> Gone {
        let unnamed = self.count - self.named.len();
        let mut gone = gone.swept(self.named);
        gone.swept_count += unnamed;
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                cgroup: match fails {
                    true => Cgroup::Failed("EMFILE".to_owned()),
                    false => Cgroup::Empty,
                },
                inside: Inside::default(),
            }),
            Input::Awaits => Event::Awaits(Some(Remnant::process(7, "exiting"))),
            Input::Searched { fails: true } => Event::Searched(Err("EMFILE".to_owned())),
            Input::Searched { fails: false } => Event::Searched(Ok(Found {
                ended: Inside::default(),
                adopted: Adopted::Nobody,
            })),
        }
    }

    /// Follows one order of events, and checks each reaction. Returns the number of events that were
    /// out of place.
    fn follow(order: &[Input], is_marked: bool) -> usize {
        let mut strays = 0;
        let mut conclusion = Conclusion::new(is_marked);
        let mut asked = None;
        let (mut has_ended, mut reported, mut published) = (false, None, None);
        let (mut is_empty, mut is_clear) = (false, false);
        for &input in order {
            // A step was answered, or the event is out of place and must change nothing.
            let answers = match input {
                Input::Emptied { .. } => asked == Some(Asked::Empty),
                Input::Awaits | Input::Searched { .. } => asked == Some(Asked::Search),
                Input::Again => published == Some(false),
                Input::Reported { .. } => reported.is_none() && !has_ended,
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
                Some(Next::Search(place)) => {
                    assert!(is_marked && asked.is_none(), "{order:?}");
                    assert_eq!(place == Where::Foreign, reported.is_some(), "{order:?}");
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
        if has_ended && asked.is_none() {
            assert!(published.is_some(), "{order:?} ends without a conclusion");
        }
        strays
    }

    /// Follows all orders that begin so. One event out of place must change nothing that follows.
    fn follow_all(order: &mut Vec<Input>, is_marked: bool, reached: &mut usize) {
        const LENGTH: usize = 7;
        let strays = follow(order, is_marked);
        *reached += 1;
        if order.len() == LENGTH || strays > 1 {
            return;
        }
        for input in INPUTS {
            order.push(input);
            follow_all(order, is_marked, reached);
            order.pop();
        }
    }

    #[test]
    fn every_order_of_events_ends_in_one_conclusion() {
        for is_marked in [true, false] {
            let mut reached = 0;
            follow_all(&mut Vec::new(), is_marked, &mut reached);
            assert!(reached > 10_000, "{reached} orders");
        }
    }

    #[test]
    fn a_report_that_comes_after_the_take_over_changes_nothing() {
        let mut conclusion = Conclusion::new(true);
        conclusion.on(event(Input::GuardianEnded));
        let acts = conclusion.on(event(Input::Reported { executed: true }));
        assert!(acts.next.is_none() && acts.proof.is_none() && acts.exit.is_none());
        assert!(conclusion.has_begun());
    }
}
