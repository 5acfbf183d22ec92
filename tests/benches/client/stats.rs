//! Medians, and the table that is printed.

use std::fmt;
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

pub(crate) fn millis(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.1} us", seconds * 1e6)
    } else {
        format!("{:.2} ms", seconds * 1e3)
    }
}

/// The measured values, as ratios against a peer.
pub(crate) struct Table {
    peer: &'static str,
    lines: Vec<[String; 5]>,
}

impl Table {
    pub(crate) fn new(peer: &'static str) -> Self {
        Self {
            peer,
            lines: Vec::new(),
        }
    }

    pub(crate) fn floor(&mut self, what: &str, seconds: f64) {
        self.push([what, "", &millis(seconds), "", "floor"]);
    }

    /// Times: less is better.
    pub(crate) fn row(&mut self, what: &str, ours: f64, theirs: f64, bar: &str) {
        let ratio = format!("{:.2}", ours / theirs);
        self.push([what, &millis(ours), &millis(theirs), &ratio, bar]);
    }

    /// Times per item, shown as rates: more is better.
    pub(crate) fn rate(&mut self, what: &str, ours: f64, theirs: f64, bar: &str) {
        let per_second = |seconds: f64| format!("{:.0}/s", 1.0 / seconds);
        let ratio = format!("{:.2}", theirs / ours);
        self.push([what, &per_second(ours), &per_second(theirs), &ratio, bar]);
    }

    /// Ours against ours.
    pub(crate) fn compare(&mut self, what: &str, now: f64, before: f64, bar: &str) {
        let ratio = format!("{:.2}", now / before);
        self.push([
            what,
            &millis(now),
            &format!("({})", millis(before)),
            &ratio,
            bar,
        ]);
    }

    fn push(&mut self, line: [&str; 5]) {
        self.lines.push(line.map(str::to_owned));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<36} {:>12} {:>12} {:>7}  bar",
            "", "ours", self.peer, "ratio"
        )?;
        for [what, ours, theirs, ratio, bar] in &self.lines {
            writeln!(f, "{what:<36} {ours:>12} {theirs:>12} {ratio:>7}  {bar}")?;
        }
        Ok(())
    }
}
