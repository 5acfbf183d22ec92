//! A suite that overruns aborts instead of hanging.

use std::io::{self, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Aborts the process unless it is dropped in time.
///
/// A runtime's timeout does not help when the code under test blocks the
/// thread that would notice it. This one is a plain thread, and the abort
/// closes the observer's sockets, which ends every fixture.
///
/// ```
/// use mcp_lifecycle_conformance::deadline::Watchdog;
/// use std::time::Duration;
///
/// let _watchdog = Watchdog::arm("the example", Duration::from_secs(10));
/// ```
#[derive(Debug)]
#[must_use = "dropping the watchdog disarms it"]
pub struct Watchdog {
    disarm: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watchdog {
    /// Gives whatever follows `limit` to finish.
    ///
    /// # Panics
    ///
    /// When no thread can be started.
    pub fn arm(what: &str, limit: Duration) -> Self {
        let what = what.to_owned();
        let (disarm, disarmed) = mpsc::channel::<()>();
        let (started, has_started) = mpsc::channel();
        let watch = move || {
            let _ = started.send(());
            if disarmed.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                // Not `eprintln!`: what a test prints is captured, and would go with the process.
                let _ = writeln!(
                    io::stderr(),
                    "{what} has not finished within {limit:?}: aborting"
                );
                std::process::abort();
            }
        };
        let thread = thread::Builder::new().name("watchdog".to_owned());
        let thread = thread.spawn(watch).expect("start the watchdog");
        // A thread takes its name when it runs: before that, a census would
        // take it for another one of ours.
        let _ = has_started.recv();
        Self {
            disarm: Some(disarm),
            thread: Some(thread),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.disarm.take());
        if let Some(thread) = self.thread.take() {
            // Joined, so that whoever counts threads next does not find it.
            let _ = thread.join();
        }
    }
}
