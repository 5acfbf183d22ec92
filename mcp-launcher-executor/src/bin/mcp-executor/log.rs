//! The log, which may have no reader: nothing that serves ever waits for one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait for a reader, at most. What comes then is lost.
const WAITING: usize = 2048;

/// How long last words wait for a reader.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Begins the log on standard error. Dropping what is returned writes out what
/// waits, for as long as a second.
pub(crate) fn begin() -> WorkerGuard {
    let (lines, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(WAITING)
        .thread_name("mcp-executor-log")
        .finish(io::stderr());
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let told = Arc::default();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Lossy { lines, told })
        .with_ansi(false)
        // Said on standard error, which is what failed: that would be a panic.
        .log_internal_errors(false)
        .init();
    guard
}

/// Writes what this program says at its end, unless nobody reads it.
pub(crate) fn last_words(text: String) {
    let (written, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        eprintln!("mcp-executor: {text}");
        let _ = written.send(());
    });
    let _ = done.recv_timeout(LAST_WORDS);
}

/// Lines that are written when there is a reader, and how many were lost that the
/// log has told of.
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
        // There is room again: this line was not lost.
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
