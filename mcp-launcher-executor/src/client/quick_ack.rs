//! Acknowledging received bytes at once.
//!
//! codex (0.169) leaves Nagle's algorithm on: its second small frame in a row
//! waits until we have acknowledged the first, and Linux delays that by 40 ms,
//! because nothing of ours is due to carry it. So every call took 44 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::TcpStream;

/// Whether to acknowledge at once; shared with whoever knows the peer.
#[derive(Debug, Clone)]
pub(super) struct QuickAck(Arc<AtomicBool>);

impl QuickAck {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// A daemon of ours has no use for it.
    pub(super) fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }

    /// After a read. The kernel forgets it again, so it is said after every one;
    /// that it fails is no reason to fail.
    pub(super) fn acknowledge(&self, stream: &TcpStream) {
        #[cfg(target_os = "linux")]
        if self.0.load(Ordering::Relaxed) {
            let _ = stream.set_quickack(true);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = stream;
    }
}
