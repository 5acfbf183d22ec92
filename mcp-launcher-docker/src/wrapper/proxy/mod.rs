//! A server's own way to the engine: everything passes, creates are labelled.
//!
//! Prior art for the rewriting of creates on the way to the daemon is
//! buildkite/sockguard (archived). HTTP is hyper's on both sides, so that each
//! request is routed by itself, whatever was on its connection before. What
//! would create a container and cannot be labelled is refused.

mod answer;
mod body;
mod build;
mod client;
mod create;
mod fence;
mod fields;
mod forward;
mod json;
mod rewrite;
mod route;
mod serve;
#[cfg(test)]
mod tests;
mod upstream;

use std::collections::BTreeSet;
use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub(crate) use fence::Fence;
pub(crate) use rewrite::Additions;

use crate::control;
use crate::last_will::{self, Wills};

/// The longest path of a Unix socket that every system takes (macOS: 104).
pub(crate) const LONGEST_PATH: usize = 103;

/// A proxy that listens.
///
/// # Drop
///
/// Stops to listen and removes the socket. Connections that are open go on
/// until either side ends them.
#[derive(Debug)]
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    path: PathBuf,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    upstream: PathBuf,
    additions: Additions,
    /// The processes that end what is created when this host dies.
    wills: Option<Arc<Wills>>,
    fence: Fence,
    /// One place for a long body.
    long: Arc<Semaphore>,
    created: Created,
}

/// The ids of the containers that the engine said it had created for us.
#[derive(Debug, Default)]
struct Created(Mutex<BTreeSet<String>>);

impl Proxy {
    /// Listens at `path`, whose directory is private.
    pub(crate) fn start(
        path: PathBuf,
        upstream: PathBuf,
        additions: Additions,
        wills: Option<Arc<Wills>>,
    ) -> io::Result<Self> {
        if path.as_os_str().len() > LONGEST_PATH {
            let problem = format!("{} is too long for a socket", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let listener = StdListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            upstream,
            additions,
            wills,
            fence: Fence::default(),
            long: Arc::new(Semaphore::new(1)),
            created: Created::default(),
        });
        let proxy = Self {
            shared: Arc::clone(&shared),
            path,
            stop: stop.clone(),
        };
        // Who waits for the fence to be empty waits for the listener to be
        // closed, too.
        let pass = shared.fence.hold();
        control::spawn(async move {
            let _pass = pass;
            tokio::select! {
                () = serve::accept(listener, shared) => {}
                () = stop.cancelled() => {}
            }
        })?;
        Ok(proxy)
    }

    /// Nothing can be created through it any more.
    pub(crate) fn close(&self) {
        self.shared.fence.close();
        self.stop.cancel();
        let _ = std::fs::remove_file(&self.path);
    }

    pub(crate) fn fence(&self) -> &Fence {
        &self.shared.fence
    }

    /// Why what is created lives on when this host dies, if it does.
    pub(crate) fn survives_the_host(&self) -> Option<&'static str> {
        let Some(wills) = self
            .shared
            .wills
            .as_ref()
            .filter(|_| last_will::is_possible())
        else {
            return Some("nothing outlives the host to end the containers that this server starts");
        };
        match wills.is_alive(&self.shared.upstream) {
            // Begun with the first create.
            None | Some(true) => None,
            Some(false) => {
                Some("the process that would end the containers that this server starts has ended")
            }
        }
    }

    /// Returns whether the engine created this container by a request of ours.
    pub(crate) fn has_created(&self, id: &str) -> bool {
        let ids = self.shared.created.0.lock();
        ids.unwrap_or_else(PoisonError::into_inner).contains(id)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
    }
}

impl Created {
    /// As many as are remembered; 64 bytes each.
    const MOST: usize = 16 * 1024;

    fn note(&self, id: &str) {
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.len() < Self::MOST {
            ids.insert(id.to_owned());
        }
    }
}
