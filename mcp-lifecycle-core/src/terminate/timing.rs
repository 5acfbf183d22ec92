//! Fixed times of the core, and addition of durations.
//!
//! | Constant | How long | From | Until |
//! |---|---|---|---|
//! | `EXIT_AFTER_STREAM` | 250 ms | the end of the server's output, or of its input | its exit, or they count as separate events |
//! | `LAST_WORDS` | 100 ms | the exit of the main process, or the end of its input | the end of its output, where another process holds the pipe, or itself |
//! | `REST_OF_OUTPUT` | 250 ms | the server is gone | the end of its stdout and stderr |
//! | `CAUSE_KNOWN` | 2 s | a connection breaks | its cause must be known: usually sooner, by the watcher |
//! | `END_AGAIN` | 1 s, doubling up to 30 s | an end without proof | the next attempt |
//! | `PROOF_RESERVE` | a quarter of the time given, at most 1 s | what is left is killed | the end of a shutdown of many servers |
//!
//! The first three never extend [`TerminationPolicy::longest`](super::TerminationPolicy::longest).

use std::time::Duration;

use tokio::time::Instant;

#[cfg(feature = "client")]
pub(crate) const EXIT_AFTER_STREAM: Duration = Duration::from_millis(250);
#[cfg(feature = "client")]
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(100);
#[cfg(feature = "client")]
pub(crate) const REST_OF_OUTPUT: Duration = Duration::from_millis(250);
#[cfg(feature = "client")]
pub(crate) const CAUSE_KNOWN: Duration = Duration::from_secs(2);
#[cfg(feature = "fleet")]
pub(crate) const END_AGAIN: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_secs(30));
#[cfg(feature = "fleet")]
pub(crate) const PROOF_RESERVE: Duration = Duration::from_secs(1);

/// Thirty years: practically never, and within the range of every clock.
const NEVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

/// `Duration::MAX` means for ever and must not overflow.
pub(crate) fn after(start: Instant, wait: Duration) -> Instant {
    start + wait.min(NEVER)
}
