//! Medians.

use std::time::Duration;

/// The median, in seconds.
pub(crate) fn median(times: impl IntoIterator<Item = Duration>) -> f64 {
    percentile(times, 50)
}

/// The time that so many percent take at most, in seconds.
pub(crate) fn percentile(times: impl IntoIterator<Item = Duration>, percent: usize) -> f64 {
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_unstable();
    times[times.len() * percent / 100].as_secs_f64()
}
