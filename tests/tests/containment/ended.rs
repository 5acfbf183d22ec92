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
        if !strangers_end(stage, &text.unwrap_or_default()) {
            return gone;
        }
        stage.wait("the order", terminator.force_end()).unwrap();
    }
}

/// Waits until those have ended whom an error names, if there are some and all of them
/// are strangers; says whether that is so.
#[track_caller]
pub(crate) fn strangers_end(stage: &Stage, error: &str) -> bool {
    let named = event::suspects_in(error);
    let own: Vec<u32> = stage.alive.alive().iter().map(|it| it.pid).collect();
    let are_strangers = !named.is_empty() && !named.iter().any(|pid| own.contains(pid));
    if are_strangers {
        named.into_iter().for_each(wait_for_end);
    }
    are_strangers
}
