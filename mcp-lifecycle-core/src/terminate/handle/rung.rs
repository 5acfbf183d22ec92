//! One rung of the ladder while it is climbed: its action and its clock.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Shared;
use crate::launch::error::step::StepError;
use crate::terminate::ladder::Phase;
use crate::terminate::timing::after;

type Action<'a> = Pin<Box<dyn Future<Output = Result<(), StepError>> + Send + 'a>>;

/// The action on a rung, and its time limit.
///
/// The action and the wait run side by side: an action that is acknowledged late has
/// the rest of the rung, and one that never is has all of it.
pub(super) struct Rung<'a> {
    phase: Option<Phase>,
    action: Option<Action<'a>>,
    /// The time when the synchronous kill takes over from a force that is not acknowledged.
    overdue: Option<Instant>,
    wait: Duration,
    deadline: Instant,
}

/// An event on a rung.
pub(super) enum Happened {
    /// The action was acknowledged.
    Done,
    /// The action failed.
    Failed(StepError),
    /// A force should have been acknowledged by now.
    Overdue,
    /// The wait is over; how long the action has had, if it was never acknowledged.
    TimedOut { unacknowledged: Option<Duration> },
}

impl<'a> Rung<'a> {
    /// No rung yet.
    pub(super) fn none(now: Instant) -> Self {
        Self {
            phase: None,
            action: None,
            overdue: None,
            wait: Duration::ZERO,
            deadline: now,
        }
    }

    pub(super) fn new(shared: &'a Shared, phase: Phase, wait: Duration) -> Self {
        let terminator = &shared.terminator;
        let action: Option<Action<'a>> = match phase {
            Phase::CloseStdin => Some(Box::pin(async {
                shared.stdin.close().await;
                Ok(())
            })),
            Phase::Stragglers => None,
            Phase::RequestEnd => Some(terminator.request_end()),
            Phase::ForceEnd => Some(terminator.force_end()),
        };
        let now = Instant::now();
        Self {
            phase: Some(phase),
            action,
            overdue: (phase == Phase::ForceEnd).then(|| after(now, wait / 2)),
            wait,
            deadline: after(now, wait),
        }
    }

    pub(super) fn is_force(&self) -> bool {
        self.phase == Some(Phase::ForceEnd)
    }

    /// The next thing that happens; each but the last happens once.
    pub(super) async fn next(&mut self) -> Happened {
        let acting = self.action.is_some();
        let done = async {
            match &mut self.action {
                Some(action) => action.as_mut().await,
                None => std::future::pending().await,
            }
        };
        let overdue = async {
            match self.overdue {
                Some(at) if acting => sleep_until(at).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = done => {
                self.action = None;
                match done {
                    Ok(()) => Happened::Done,
                    Err(error) => Happened::Failed(error),
                }
            }
            () = sleep_until(self.deadline) => Happened::TimedOut {
                unacknowledged: acting.then_some(self.wait),
            },
            () = overdue => {
                self.overdue = None;
                Happened::Overdue
            }
        }
    }
}
