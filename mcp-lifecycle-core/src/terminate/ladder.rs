//! The termination ladder as a pure state machine: no clock, no I/O.
//!
//! ```text
//!            ┌───────────────┐ exited   ┌────────────┐
//!  begin ───▶│  CloseStdin   │─────────▶│ Stragglers │
//!            └──────┬────────┘          └─────┬──────┘
//!                   │ timed out               │ timed out
//!                   ▼                         ▼
//!            ┌───────────────────────────────────────┐
//!            │            RequestEnd (SIGTERM)       │
//!            └──────┬────────────────────────────────┘
//!                   │ timed out
//!                   ▼
//!            ┌───────────────┐ timed out
//!            │   ForceEnd    │──────────▶ Unproven (error, names survivors)
//!            └───────────────┘
//!
//!  from every state: proof that the tree is gone ──▶ the termination is done
//! ```
//!
//! The main process's exit is not the end: its descendants have `straggler_grace`, then SIGTERM,
//! then SIGKILL. A wrapper that dies of SIGTERM does not shorten the grace of the server behind it.
//! Unsupported steps and steps with a wait of zero are skipped; a failed step counts as timed out.

use std::time::Duration;

use super::TerminationPolicy;
use crate::launch::TerminationSemantics;

/// A rung of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, displaydoc::Display)]
#[non_exhaustive]
pub enum Phase {
    /// Stdin is closed; the server should exit by itself.
    #[displaydoc("close_stdin")]
    CloseStdin,
    /// The main process has exited; its descendants may follow.
    #[displaydoc("stragglers")]
    Stragglers,
    /// The server got SIGTERM.
    #[displaydoc("request_end")]
    RequestEnd,
    /// The server gets SIGKILL.
    #[displaydoc("force_end")]
    ForceEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Enter this phase: carry out its action, then wait for an event.
    Enter {
        phase: Phase,
        wait: Duration,
    },
    Wait,
    /// Every rung was used and something may still live.
    Unproven,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    MainExited,
    /// The current phase is over, or its action failed. The first one begins the ladder.
    TimedOut,
}

#[derive(Debug)]
pub(crate) struct Ladder {
    eof: Option<Duration>,
    stragglers: Duration,
    term: Option<Duration>,
    kill: Duration,
    /// `None` before the first.
    phase: Option<Phase>,
}

impl Ladder {
    pub(crate) fn new(policy: &TerminationPolicy, semantics: &TerminationSemantics) -> Self {
        let unless_zero = |able: bool, wait: Duration| (able && !wait.is_zero()).then_some(wait);
        Self {
            eof: unless_zero(semantics.stdin_eof, policy.eof_grace),
            stragglers: policy.straggler_grace,
            term: unless_zero(semantics.polite_signal, policy.term_grace),
            kill: policy.kill_confirmation,
            phase: None,
        }
    }

    pub(crate) fn on(&mut self, event: Event) -> Step {
        match (event, self.phase) {
            (Event::MainExited, None | Some(Phase::CloseStdin)) => {
                self.enter(Phase::Stragglers, self.stragglers)
            }
            (Event::MainExited, _) => Step::Wait,
            (Event::TimedOut, None) => match self.eof {
                Some(wait) => self.enter(Phase::CloseStdin, wait),
                None => self.after_eof(),
            },
            (Event::TimedOut, Some(Phase::CloseStdin | Phase::Stragglers)) => self.after_eof(),
            (Event::TimedOut, Some(Phase::RequestEnd)) => self.enter(Phase::ForceEnd, self.kill),
            (Event::TimedOut, Some(Phase::ForceEnd)) => Step::Unproven,
        }
    }

    fn after_eof(&mut self) -> Step {
        match self.term {
            Some(wait) => self.enter(Phase::RequestEnd, wait),
            None => self.enter(Phase::ForceEnd, self.kill),
        }
    }

    fn enter(&mut self, phase: Phase, wait: Duration) -> Step {
        self.phase = Some(phase);
        Step::Enter { phase, wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::containment::{Containment, Reach};

    fn semantics() -> TerminationSemantics {
        let mute = TerminationSemantics::new(Containment::new("test", Reach::Tree));
        mute.stdin_eof().polite_signal()
    }

    fn phase(step: Step) -> Phase {
        match step {
            Step::Enter { phase, .. } => phase,
            other => panic!("expected a phase, got {other:?}"),
        }
    }

    #[test]
    fn phases_have_stable_names() {
        use Phase::{CloseStdin, ForceEnd, RequestEnd, Stragglers};

        let names = [CloseStdin, Stragglers, RequestEnd, ForceEnd].map(|it| it.to_string());
        let expected = ["close_stdin", "stragglers", "request_end", "force_end"];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_stubborn_server_climbs_every_rung_in_the_order_of_the_specification() {
        let mut ladder = Ladder::new(&TerminationPolicy::default(), &semantics());
        assert_eq!(phase(ladder.on(Event::TimedOut)), Phase::CloseStdin);
        assert_eq!(phase(ladder.on(Event::TimedOut)), Phase::RequestEnd);
        assert_eq!(phase(ladder.on(Event::TimedOut)), Phase::ForceEnd);
        assert_eq!(ladder.on(Event::TimedOut), Step::Unproven);
    }

    #[test]
    fn the_exit_of_the_main_process_waits_for_what_it_left() {
        let mut ladder = Ladder::new(&TerminationPolicy::default(), &semantics());
        ladder.on(Event::TimedOut);
        assert_eq!(phase(ladder.on(Event::MainExited)), Phase::Stragglers);
    }

    #[test]
    fn a_helper_that_outlives_the_main_process_is_asked_before_it_is_forced() {
        let mut ladder = Ladder::new(&TerminationPolicy::default(), &semantics());
        assert_eq!(phase(ladder.on(Event::MainExited)), Phase::Stragglers);
        assert_eq!(phase(ladder.on(Event::TimedOut)), Phase::RequestEnd);
        assert_eq!(phase(ladder.on(Event::TimedOut)), Phase::ForceEnd);
    }

    #[test]
    fn a_wrapper_that_dies_of_sigterm_leaves_its_grace_to_the_server_behind_it() {
        let mut ladder = Ladder::new(&TerminationPolicy::default(), &semantics());
        ladder.on(Event::TimedOut);
        ladder.on(Event::TimedOut);
        assert_eq!(ladder.on(Event::MainExited), Step::Wait);
    }

    #[test]
    fn what_a_launcher_cannot_do_costs_no_grace() {
        let mute = TerminationSemantics::new(semantics().containment);
        let mut ladder = Ladder::new(&TerminationPolicy::default(), &mute);
        assert_eq!(phase(ladder.on(Event::TimedOut)), Phase::ForceEnd);
    }

    #[test]
    fn an_immediate_policy_goes_straight_to_force() {
        let mut ladder = Ladder::new(&TerminationPolicy::immediate(), &semantics());
        assert_eq!(phase(ladder.on(Event::TimedOut)), Phase::ForceEnd);
    }
}
