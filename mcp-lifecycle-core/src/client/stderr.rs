use std::collections::VecDeque;
use std::sync::Arc;

use super::TransportLimits;
use super::event::Observed;
use super::transport::lines::{Line, LineReader};
use crate::launch::BoxRead;
use crate::lock::Lock;
use crate::terminate::callback::guarded;

#[derive(Debug)]
pub(crate) struct StderrTail {
    lines: Lock<VecDeque<String>>,
    limit: usize,
}

impl StderrTail {
    pub(super) fn new(limits: &TransportLimits) -> Arc<Self> {
        Arc::new(Self {
            lines: Lock::default(),
            limit: limits.stderr_lines,
        })
    }

    pub(super) fn tail(&self) -> Vec<String> {
        let lines = self.lines.lock();
        lines.iter().cloned().collect()
    }

    fn push(&self, line: String) {
        let mut lines = self.lines.lock();
        lines.push_back(line);
        if lines.len() > self.limit {
            lines.pop_front();
        }
    }
}

/// Drains stderr: a server blocks after some 64 KiB of unread stderr.
pub(super) async fn drain(
    stderr: BoxRead,
    tail: Arc<StderrTail>,
    observed: Observed,
    line_limit: usize,
) {
    let sink = |line: Line<'_>| {
        let (Line::Complete(line) | Line::Oversized(line)) = line;
        let line = String::from_utf8_lossy(&line[..line.len().min(line_limit)]);
        guarded("a subscriber", &observed.server, || {
            tracing::debug!(server = %observed.server, stderr = %line);
        });
        observed.stderr(&line);
        tail.push(line.into_owned());
    };
    LineReader::new(stderr, line_limit).drain(sink).await;
}
