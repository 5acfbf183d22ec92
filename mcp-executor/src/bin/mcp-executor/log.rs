//! The log. Nothing that serves ever waits for its reader.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

const LAST_WORDS: Duration = Duration::from_secs(1);

/// Starts the log on stderr. Dropping the guard flushes the queue for up to a second.
pub(crate) fn begin() -> WorkerGuard {
    let (lines, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(2048)
        .thread_name("mcp-executor-log")
        .finish(io::stderr());
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let told = Arc::default();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Lossy { lines, told })
        .with_ansi(false)
        // Internal errors would be written to stderr, which has failed: that would panic.
        .log_internal_errors(false)
        .init();
    guard
}

/// Writes the final message, unless stderr blocks.
pub(crate) fn last_words(text: String) {
    let (written, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        eprintln!("mcp-executor: {text}");
        let _ = written.send(());
    });
    let _ = done.recv_timeout(LAST_WORDS);
}

/// A lossy queue, and the number of lost lines that the log has reported.
#[derive(Clone)]
struct Lossy {
    lines: NonBlocking,
    told: Arc<AtomicUsize>,
}

impl io::Write for Lossy {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let counter = self.lines.error_counter();
        let before = counter.dropped_lines();
        let written = self.lines.write(line)?;
        let lost = counter.dropped_lines();
        // The queue has room again: this line was not lost.
        if lost == before && self.told.swap(lost, Ordering::Relaxed) < lost {
            let text = format!("{lost} lines of this log were lost so far: nobody read it\n");
            self.lines.write_all(text.as_bytes())?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lossy {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
