use std::collections::VecDeque;
use std::sync::Arc;

use super::event::Observed;
use super::transport::lines::{Line, LineReader};
use crate::launch::BoxRead;
use crate::lock::Lock;
use crate::terminate::callback::guarded;

/// The number of lines that are kept for reports.
const LINES: usize = 20;

/// The longest line, in bytes; longer ones are cut off.
const LINE: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct StderrTail {
    lines: Lock<VecDeque<String>>,
}

impl StderrTail {
    pub(super) fn tail(&self) -> Vec<String> {
        let lines = self.lines.lock();
        lines.iter().cloned().collect()
    }

    fn push(&self, line: String) {
        let mut lines = self.lines.lock();
        lines.push_back(line);
        if lines.len() > LINES {
            lines.pop_front();
        }
    }
}

/// Drains stderr: a server blocks after some 64 KiB of unread stderr.
pub(super) async fn drain(stderr: BoxRead, tail: Arc<StderrTail>, observed: Observed) {
    let sink = |line: Line<'_>| {
        let (Line::Complete(line) | Line::Oversized(line)) = line;
        let line = String::from_utf8_lossy(&line[..line.len().min(LINE)]);
        guarded("a subscriber", &observed.server, || {
            tracing::debug!(server = %observed.server, stderr = %line);
        });
        observed.stderr(&line);
        tail.push(line.into_owned());
    };
    LineReader::new(stderr, LINE).drain(sink).await;
}
