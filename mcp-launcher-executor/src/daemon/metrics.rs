//! [`Metrics`]: how many of what there are, and have been.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The daemon's numbers at one moment.
///
/// Those named `..._total` only grow. [`Display`](std::fmt::Display) is the text
/// format of Prometheus.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Connections that came in and are there.
    pub connections: u64,
    /// Connections that were refused: no token, no room, not in time.
    pub connections_refused_total: u64,
    /// Sessions, attached or not.
    pub sessions: u64,
    /// Sessions that there may be.
    pub sessions_limit: u64,
    /// Processes that are not proven gone.
    pub processes: u64,
    /// Processes that one session may have.
    pub processes_per_session_limit: u64,
    /// Processes that were started.
    pub processes_started_total: u64,
    /// Processes that a client asked for and did not get.
    pub processes_refused_total: u64,
    /// Processes that are proven gone.
    pub processes_gone_total: u64,
    /// Processes that may have survived their end.
    pub processes_unproven_total: u64,
    /// Bytes of memory that clients have filled: frames, input, output, requests.
    pub memory_bytes: u64,
    /// Bytes that clients may fill together, beside a little of each.
    pub memory_limit_bytes: u64,
    /// Bytes from clients that came in, without those of TLS.
    pub received_bytes_total: u64,
    /// Bytes of frames to clients.
    pub sent_bytes_total: u64,
    /// Those of each token that clients have shown, where there are several.
    pub tokens: Vec<TokenMetrics>,
}

/// The numbers of the clients of one token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenMetrics {
    /// The token's name.
    pub name: String,
    /// Sessions, attached or not.
    pub sessions: u64,
    /// Processes that are not proven gone, and starts under way.
    pub processes: u64,
    /// Bytes of memory that its clients have filled.
    pub memory_bytes: u64,
}

impl std::fmt::Display for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers = [
            ("connections", self.connections),
            ("connections_refused_total", self.connections_refused_total),
            ("sessions", self.sessions),
            ("sessions_limit", self.sessions_limit),
            ("processes", self.processes),
            (
                "processes_per_session_limit",
                self.processes_per_session_limit,
            ),
            ("processes_started_total", self.processes_started_total),
            ("processes_refused_total", self.processes_refused_total),
            ("processes_gone_total", self.processes_gone_total),
            ("processes_unproven_total", self.processes_unproven_total),
            ("memory_bytes", self.memory_bytes),
            ("memory_limit_bytes", self.memory_limit_bytes),
            ("received_bytes_total", self.received_bytes_total),
            ("sent_bytes_total", self.sent_bytes_total),
        ];
        for (name, number) in numbers {
            let kind = match name.ends_with("_total") {
                true => "counter",
                false => "gauge",
            };
            f.write_str("# TYPE mcp_executor_")?;
            writeln!(f, "{name} {kind}\nmcp_executor_{name} {number}")?;
        }
        for (at, what) in ["sessions", "processes", "memory_bytes"].iter().enumerate() {
            if !self.tokens.is_empty() {
                writeln!(f, "# TYPE mcp_executor_token_{what} gauge")?;
            }
            for token in &self.tokens {
                let number = [token.sessions, token.processes, token.memory_bytes][at];
                let name = label(&token.name);
                writeln!(f, "mcp_executor_token_{what}{{token=\"{name}\"}} {number}")?;
            }
        }
        Ok(())
    }
}

/// The text of a label: these three are escaped, and nothing else may be.
fn label(text: &str) -> String {
    let text = text.replace('\\', r"\\").replace('"', "\\\"");
    text.replace('\n', r"\n")
}

/// Counters of events, counted as they happen.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) started: AtomicU64,
    pub(super) not_started: AtomicU64,
    pub(super) gone: AtomicU64,
    pub(super) unproven: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) sent: AtomicU64,
}

/// Adds to a number that only grows.
pub(super) fn count(number: &AtomicU64, more: usize) {
    number.fetch_add(more as u64, Ordering::Relaxed);
}

pub(super) fn now(number: &AtomicU64) -> u64 {
    number.load(Ordering::Relaxed)
}

/// A connection that is there, until it is dropped.
pub(super) struct Present(Arc<Counters>);

impl Present {
    pub(super) fn new(counters: &Arc<Counters>) -> Self {
        count(&counters.connections, 1);
        Self(Arc::clone(counters))
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_label_has_the_escapes_of_the_format_and_no_others() {
        let name = "a\"b\\c\nd\te\u{7f}\u{e9}";
        assert_eq!(super::label(name), "a\\\"b\\\\c\\nd\te\u{7f}\u{e9}");
    }
}
