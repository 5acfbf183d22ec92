//! A server's standard error: always drained, its end kept, its lines observed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};

use super::event::Observed;
use super::transport::TransportLimits;
use super::transport::lines::{Line, LineReader};
use crate::launch::launched::BoxRead;
use crate::terminate::callback::guarded;

/// The last lines of one server's standard error.
#[derive(Debug)]
pub(crate) struct StderrTail {
    lines: Mutex<VecDeque<String>>,
    limit: usize,
}

/// The number of reads that are made before other tasks get a turn.
const READS_PER_TURN: usize = 32;

impl StderrTail {
    pub(super) fn new(limits: &TransportLimits) -> Arc<Self> {
        Arc::new(Self {
            lines: Mutex::default(),
            limit: limits.stderr_lines,
        })
    }

    pub(super) fn tail(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().cloned().collect()
    }

    fn push(&self, line: String) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(line);
        if lines.len() > self.limit {
            lines.pop_front();
        }
    }
}

/// Reads standard error until its end. A server whose standard error nobody
/// reads stops at the first 64 KiB, in the middle of whatever it was doing.
pub(super) async fn drain(
    stderr: BoxRead,
    tail: Arc<StderrTail>,
    observed: Observed,
    line_limit: usize,
) {
    let mut reader = LineReader::new(stderr, line_limit);
    let mut sink = |line: Line<'_>| {
        let (Line::Complete(line) | Line::Oversized(line)) = line;
        let line = String::from_utf8_lossy(&line[..line.len().min(line_limit)]);
        guarded("a subscriber", &observed.server, || {
            tracing::debug!(server = %observed.server, stderr = %line);
        });
        observed.stderr(&line);
        tail.push(line.into_owned());
    };
    std::future::poll_fn(|cx| {
        for _ in 0..READS_PER_TURN {
            match ready!(reader.poll_lines(cx, &mut sink)) {
                Ok(true) => {}
                Ok(false) | Err(_) => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
