//! The time to look again while processes come and go.

use std::thread;
use std::time::{Duration, Instant};

/// An exec takes a millisecond, and on a loaded machine as long as the machine likes; a
/// build next door starts a thousand processes in a second. Who waits for a proof waits a
/// little longer, and is told why there is none.
const LIMIT: Duration = Duration::from_millis(1500);

/// The longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_millis(16);

/// Pauses between looks, until it has been long enough.
pub(crate) struct Patience {
    end: Instant,
    pause: Duration,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self {
            end: Instant::now() + LIMIT,
            pause: Duration::from_micros(100),
        }
    }

    /// Sleeps a little, longer each time; `false` when it has been long enough.
    pub(crate) fn lasts(&mut self) -> bool {
        if Instant::now() >= self.end {
            return false;
        }
        thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }
}
