//! Points in time that an application's durations lead to, however long these are.

use std::time::Duration;

use tokio::time::Instant;

/// Thirty years: as good as never, and within what any clock can tell.
const NEVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

/// The time that is `wait` after `start`. `Duration::MAX` is a way to say "for ever",
/// and no reason to panic.
pub(crate) fn after(start: Instant, wait: Duration) -> Instant {
    start + wait.min(NEVER)
}
