//! Acknowledges received bytes at once.
//!
//! codex (0.169) leaves Nagle's algorithm on: its second small frame in a row waits for our
//! acknowledgement of the first, which Linux delays by 40 ms. Every call took 44 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::TcpStream;

/// A switch for immediate acknowledgements, set once the peer is known.
#[derive(Debug, Clone)]
pub(super) struct QuickAck(Arc<AtomicBool>);

impl QuickAck {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    pub(super) fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }

    /// Acknowledges after a read. The kernel resets the option, so this follows every read; errors
    /// do not matter.
    pub(super) fn acknowledge(&self, stream: &TcpStream) {
        #[cfg(target_os = "linux")]
        if self.0.load(Ordering::Relaxed) {
            let _ = stream.set_quickack(true);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = stream;
    }
}
