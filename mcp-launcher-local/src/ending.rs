//! The end of a server, published by the watcher's thread to waiting tasks.

use mcp_lifecycle_core::launch::{ExitStatus, Gone, StepError};
use mcp_tree::conclusion::Proof;
use tokio::sync::watch;

#[cfg(unix)]
pub(crate) fn exit_status(status: mcp_guardian::exit::ExitStatus) -> ExitStatus {
    use mcp_guardian::exit::ExitStatus as Process;
    match status {
        Process::Code(code) => ExitStatus::Code(code),
        Process::Signal(signal) => ExitStatus::Signal(signal),
        Process::Unknown => ExitStatus::Unknown,
    }
}

/// The known facts about the end of one server: one value, so that a task that waits for exit and
/// proof wakes up once.
#[derive(Debug)]
pub(crate) struct Ending {
    state: watch::Sender<State>,
}

#[derive(Debug, Default)]
struct State {
    exit: Option<ExitStatus>,
    proof: Option<Proof>,
}

impl Ending {
    pub(crate) fn new() -> Self {
        Self {
            state: watch::Sender::default(),
        }
    }

    /// Publishes what is new, and wakes the waiting tasks. The first exit counts, and a proof that
    /// nothing is left stands.
    pub(crate) fn publish(&self, exit: Option<ExitStatus>, proof: Option<Proof>) {
        self.state.send_if_modified(|known| {
            let exit = exit.filter(|_| known.exit.is_none());
            let proof = proof.filter(|_| !matches!(known.proof, Some(Proof::Gone(_))));
            let is_new = exit.is_some() || proof.is_some();
            known.exit = known.exit.or(exit);
            known.proof = proof.or(known.proof.take());
            is_new
        });
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.state.borrow().exit.is_some()
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn is_over(&self) -> bool {
        self.state.borrow().proof.is_some()
    }

    /// Clears a lost proof and returns whether there was one. The caller then has to look again.
    pub(crate) fn look_again(&self) -> bool {
        self.state.send_if_modified(|known| {
            let lost = matches!(known.proof, Some(Proof::Lost(_)));
            if lost {
                known.proof = None;
            }
            lost
        })
    }

    pub(crate) fn is_proven(&self) -> bool {
        matches!(self.state.borrow().proof, Some(Proof::Gone(_)))
    }

    pub(crate) async fn exited(&self) -> ExitStatus {
        let mut state = self.state.subscribe();
        let exit = state.wait_for(|state| state.exit.is_some()).await;
        exit.map_or(ExitStatus::Unknown, |state| {
            state.exit.unwrap_or(ExitStatus::Unknown)
        })
    }

    /// Returns the process that has to end before there is a proof, if known.
    #[cfg(target_os = "linux")]
    pub(crate) fn awaited(&self) -> Option<mcp_lifecycle_core::launch::Remnant> {
        match &self.state.borrow().proof {
            Some(Proof::Awaits(process)) => Some(process.clone()),
            _ => None,
        }
    }

    pub(crate) async fn gone(&self) -> Result<Gone, StepError> {
        let mut state = self.state.subscribe();
        let is_last = |proof: &Proof| !matches!(proof, Proof::Awaits(_));
        let state = state.wait_for(|state| state.proof.as_ref().is_some_and(is_last));
        let state = state.await;
        match state.map(|state| state.proof.clone()) {
            Ok(Some(Proof::Gone(gone))) => Ok(gone),
            Ok(Some(Proof::Lost(why))) => Err(StepError::new("prove that nothing is left", why)),
            Ok(_) => Err(StepError::new("prove that nothing is left", "no word")),
            Err(closed) => Err(StepError::new("hear from the watcher of servers", closed)),
        }
    }

    #[cfg(target_os = "linux")]
    pub(crate) async fn over(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| state.proof.is_some()).await;
    }
}
