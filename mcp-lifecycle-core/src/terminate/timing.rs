//! Every time that the core decides on and nobody can set, and how to add durations.
//!
//! What can be set is in [`TerminationPolicy`](super::TerminationPolicy),
//! `ServerConfig`, `RestartPolicy`, `CallOptions` and `AcquireOptions`.
//!
//! | Constant | How long | From | Until |
//! |---|---|---|---|
//! | `EXIT_AFTER_OUTPUT` | 250 ms | the end of the server's output | its exit, or they are taken for different things |
//! | `OUTPUT_AFTER_EXIT` | 100 ms | the exit of the main process | the end of its output, where somebody else holds the pipe |
//! | `REST_OF_OUTPUT` | 250 ms | the server is gone | the end of its output and of its standard error |
//! | `CAUSE_KNOWN` | 2 s | a connection breaks | somebody knows why: the watcher does sooner |
//! | `END_AGAIN` | 1 s, doubling up to 30 s | an end gave no proof | it is tried again |
//! | `PROOF_RESERVE` | a quarter of the time given, at most 1 s | what is left is killed | the end of a shutdown of many servers |
//!
//! The first three are waited for within [`TerminationPolicy::longest`](super::TerminationPolicy::longest),
//! never beyond it.

use std::time::Duration;

use tokio::time::Instant;

#[cfg(feature = "client")]
pub(crate) const EXIT_AFTER_OUTPUT: Duration = Duration::from_millis(250);
#[cfg(feature = "client")]
pub(crate) const OUTPUT_AFTER_EXIT: Duration = Duration::from_millis(100);
#[cfg(feature = "client")]
pub(crate) const REST_OF_OUTPUT: Duration = Duration::from_millis(250);
#[cfg(feature = "client")]
pub(crate) const CAUSE_KNOWN: Duration = Duration::from_secs(2);
#[cfg(feature = "fleet")]
pub(crate) const END_AGAIN: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_secs(30));
#[cfg(feature = "fleet")]
pub(crate) const PROOF_RESERVE: Duration = Duration::from_secs(1);

/// Thirty years: as good as never, and within what any clock can tell.
const NEVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

/// The time that is `wait` after `start`. `Duration::MAX` is a way to say "for ever",
/// and no reason to panic.
pub(crate) fn after(start: Instant, wait: Duration) -> Instant {
    start + wait.min(NEVER)
}
