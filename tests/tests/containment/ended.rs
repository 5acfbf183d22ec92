//! Ends that are waited for.

#[path = "../common/ended.rs"]
mod event;

use mcp_lifecycle_core::launch::{ErrorChain, Gone, ProcessTerminator, StepError};

use crate::stage::{LIMIT, Stage};

/// Waits until all of a process has ended.
#[track_caller]
pub(crate) fn wait_for_end(pid: u32) {
    assert!(
        event::ends_within(pid, LIMIT).unwrap(),
        "{pid} does not end"
    );
}

/// The proof, once strangers have gone that may be the server's as far as this user can
/// tell: those of other tests, in PID namespaces and sessions of their own.
#[track_caller]
pub(crate) fn proof_beside_strangers(
    stage: &Stage,
    terminator: &dyn ProcessTerminator,
) -> Result<Gone, StepError> {
    loop {
        let gone = stage.wait("the last word", terminator.gone());
        let text = gone
            .as_ref()
            .err()
            .map(|error| ErrorChain(error).to_string());
        let named = event::suspects_in(&text.unwrap_or_default());
        let own: Vec<u32> = stage.alive.alive().iter().map(|it| it.pid).collect();
        if named.is_empty() || named.iter().any(|pid| own.contains(pid)) {
            return gone;
        }
        named.into_iter().for_each(wait_for_end);
        stage.wait("the order", terminator.force_end()).unwrap();
    }
}
