//! The state machine of a server's end, from the guardian's final report, its end without one, or
//! in a group the leader's exit, to the proof. Pure: callbacks on any thread only carry events, and
//! the edges act: `tree::conclude`, and `group::server`.
//!
//! ```text
//! Running ──Reported | GuardianEnded──▶ Emptying ──Emptied──▶ Searching ──Searched──▶ Settled
//!                                          ▲                                             │
//!                                          └────Again──── Lost ◀── no proof    GuardianEnded
//!                                                                                        ▼
//!                                                                                     Proven
//! ```

pub mod decide;

use std::borrow::Cow;
use std::mem;

use mcp_lifecycle_core::launch::{Evidence, ExitStatus, Gone, Remnant};

use self::decide::Main;

const NAMES_MAX: usize = 64;

/// The proof that nothing of a server is left, or why there is none.
#[derive(Debug, Clone)]
pub enum Proof {
    /// Nothing is left.
    Gone(Gone),
    /// There is no proof now; asking again may find one.
    Lost(Cow<'static, str>),
    /// There is no proof before this process has ended, which may be another server's.
    Awaits(Remnant),
}

/// The final report of a guardian, or the exit of a group's leader.
#[derive(Debug, Clone)]
pub struct FinalReport {
    pub exit: Option<ExitStatus>,
    /// The proof, if the holder is empty and no process is found elsewhere.
    pub gone: Gone,
    /// `true` if the guardian has removed the cgroup.
    pub emptied: bool,
    /// `true` if there was a server. Otherwise no process can have escaped.
    pub executed: bool,
}

/// The result of emptying the holder, and what the host knew before.
#[derive(Debug, Clone)]
pub struct Emptied {
    pub main: Main,
    pub holder: Holder,
    pub inside: Inside,
}

/// The cgroup or the process group of the server, after the host has tried to empty it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// The server had none.
    None,
    /// The kernel reports that it is empty. A cgroup is removed.
    Empty(Evidence),
    /// It could not be emptied, or not be read, for this reason.
    Failed(String),
}

/// The result of the search after that, which has ended all that carries the server's identity.
#[derive(Debug)]
pub struct Found {
    pub ended: Inside,
    /// The reparented processes that may be the server's.
    pub adopted: Option<String>,
}

/// The processes that the host has ended; the first of them are named.
#[derive(Debug, Clone, Default)]
pub struct Inside {
    named: Vec<Remnant>,
    count: usize,
}

#[derive(Debug)]
pub enum Event {
    Reported(FinalReport),
    GuardianEnded(String),
    Emptied(Emptied),
    /// The search takes longer: it waits for this exiting process, if there is one.
    Awaits(Option<Remnant>),
    Searched(Result<Found, String>),
    /// An order to look again, after a lost proof.
    Again,
}

#[derive(Debug, Default)]
pub struct Acts {
    pub exit: Option<ExitStatus>,
    pub proof: Option<Proof>,
    pub next: Option<Next>,
}

/// The next step, whose result is another event.
#[derive(Debug)]
pub enum Next {
    /// Publish the exit, and empty the holder unless the guardian has.
    Empty {
        exit: Option<ExitStatus>,
        emptied: bool,
    },
    /// The guardian has left no report: end what can be found, and empty the cgroup.
    TakeOver,
    /// Search for its processes: everywhere, or in other PID namespaces only.
    Search { everywhere: bool },
    /// The proof waits for the guardian's end, which may have come already; publish the exit.
    AwaitGuardian(Option<ExitStatus>),
}

#[derive(Debug, Default)]
enum Step {
    #[default]
    Running,
    Emptying,
    Searching(Emptied),
    /// The proof is there. It implies that the guardian has gone too.
    Settled(Option<ExitStatus>, Gone),
    Lost,
    Proven,
}

#[derive(Debug)]
pub struct Conclusion {
    /// Its processes carry a mark, so that they can be searched for.
    is_marked: bool,
    report: Option<FinalReport>,
    /// How the guardian has ended. Set from the beginning where there is none.
    guardian_end: Option<String>,
    step: Step,
}

const UNSEARCHED: &str = "the guardian has reaped every process, but those that the server left \
                          in other PID namespaces could not be searched for";

const UNLOOKED: &str = "no process was looked at";

impl Conclusion {
    /// Creates the conclusion on a server behind a guardian.
    pub fn guarded(is_marked: bool) -> Self {
        Self {
            is_marked,
            report: None,
            guardian_end: None,
            step: Step::Running,
        }
    }

    /// Creates the conclusion on a server in a process group.
    pub fn of_group() -> Self {
        Self {
            guardian_end: Some("ended".to_owned()),
            ..Self::guarded(false)
        }
    }

    pub fn has_begun(&self) -> bool {
        !matches!(self.step, Step::Running)
    }

    /// Takes an event in; one that does not belong to the current step is ignored.
    pub fn on(&mut self, event: Event) -> Acts {
        match (mem::take(&mut self.step), event) {
            (Step::Running, Event::Reported(report)) => {
                self.report = Some(report);
                self.begin()
            }
            (Step::Running, Event::GuardianEnded(how)) if self.guardian_end.is_none() => {
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
            (Step::Searching(emptied), Event::Searched(found)) => self.judge(emptied, Some(found)),
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
        let Emptied { main, holder, .. } = &emptied;
        let (exit, may_hide) = match &self.report {
            // A process that was orphaned in a foreign PID namespace, and has left the cgroup, is
            // in neither.
            Some(report) => {
                let may_hide = report.executed && holder.evidence().is_ok();
                (None, may_hide)
            }
            // The exit is published now: the search takes as long as the kernel does.
            None => {
                let is_over = *main == Main::Ended
                    || *main == Main::Inside && matches!(holder, Holder::Empty(_));
                let exit = is_over.then_some(ExitStatus::Unknown);
                (exit, *main != Main::InitEnded)
            }
        };
        if self.is_marked && may_hide {
            self.step = Step::Searching(emptied);
            let everywhere = self.report.is_none();
            return Acts::then(exit, Next::Search { everywhere });
        }
        self.judge(emptied, None)
    }

    /// Judges by the report and the search, if one was made.
    fn judge(&mut self, emptied: Emptied, searched: Option<Result<Found, String>>) -> Acts {
        let Some(report) = &self.report else {
            return self.judge_alone(emptied, searched);
        };
        let exit = report.exit;
        let proof = emptied.holder.evidence().and_then(|evidence| {
            let gone = emptied.inside.swept_from(report.gone.clone());
            let (gone, evidence) = match searched {
                None => (gone, [evidence, None]),
                Some(Ok(found)) => {
                    let gone = found.ended.swept_from(gone);
                    (gone, [evidence, Some(Evidence::NoneMarked)])
                }
                Some(Err(error)) => return Err(Cow::Owned(format!("{UNSEARCHED}: {error}"))),
            };
            Ok(evidence.into_iter().flatten().fold(gone, Gone::evidence))
        });
        match proof {
            Ok(gone) => self.settle(exit, gone),
            Err(why) => self.lose(exit, why),
        }
    }

    fn judge_alone(&mut self, emptied: Emptied, searched: Option<Result<Found, String>>) -> Acts {
        let searched = searched.unwrap_or_else(|| Err(UNLOOKED.to_owned()));
        let has_ended = emptied.main_has_ended(&searched);
        let exit = has_ended.then_some(ExitStatus::Unknown);
        match emptied.verdict(&searched) {
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

impl Holder {
    /// Returns what it adds to the evidence of a report, or why the report is no proof.
    pub(crate) fn evidence(&self) -> Result<Option<Evidence>, Cow<'static, str>> {
        match self {
            Self::None => Ok(None),
            Self::Empty(evidence) => Ok(Some(evidence.clone())),
            Self::Failed(why) => Err(Cow::Owned(why.clone())),
        }
    }
}

impl Inside {
    pub fn these(all: impl ExactSizeIterator<Item = (u32, String)>) -> Self {
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
mod tests;
