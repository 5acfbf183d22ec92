//! The places of a server's connections: some for requests, others for those that wait.
//!
//! An attached client holds a stream, and a request that is answered when its container ends. Both
//! wait for what another request has to bring about: in the same places they would keep it out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_lifecycle_core::lock::Lock;

use nix::sys::resource::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

/// Limit of connections with a request in progress or to come, with two descriptors each.
pub(super) const REQUESTS: usize = 128;

/// Limit of connections that wait, with two descriptors each. Tests need fewer.
const WAITING: usize = match cfg!(test) {
    true => 200,
    false => 1024,
};

#[derive(Debug)]
pub(super) struct Places {
    requests: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    is_told: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Place {
    all: Arc<Places>,
    permit: Lock<OwnedSemaphorePermit>,
}

impl Places {
    pub(super) fn new() -> Arc<Self> {
        // At most half of what the process may open, whatever one server does.
        let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
        let fair = usize::try_from(soft / 4).unwrap_or(WAITING);
        Arc::new(Self {
            requests: Arc::new(Semaphore::new(REQUESTS)),
            waiting: Arc::new(Semaphore::new(WAITING.min(fair))),
            is_told: AtomicBool::new(false),
        })
    }

    /// Waits for a place for the next connection. `None` never comes: nothing closes them.
    pub(super) async fn next(self: &Arc<Self>) -> Option<Arc<Place>> {
        let permit = Arc::clone(&self.requests).acquire_owned().await.ok()?;
        Some(Arc::new(Place {
            all: Arc::clone(self),
            permit: Lock::new(permit),
        }))
    }
}

impl Place {
    /// Changes over to the places of those that wait. Returns whether there is one.
    pub(super) fn wait(&self) -> bool {
        let waiting = Arc::clone(&self.all.waiting);
        let Ok(permit) = waiting.try_acquire_owned() else {
            if !self.all.is_told.swap(true, Ordering::Relaxed) {
                warn!("a server has too many streams and waits open at its container engine");
            }
            return false;
        };
        *self.permit.lock() = permit;
        true
    }

    /// Returns whether an idle connection is better closed: another one may need its place.
    pub(super) fn is_scarce(&self) -> bool {
        self.all.requests.available_permits() < REQUESTS / 2
    }
}
