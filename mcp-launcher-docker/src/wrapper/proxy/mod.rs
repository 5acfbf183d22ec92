//! A server's proxy to the engine: it forwards everything and labels creations. A creation that cannot
//! be labelled is refused.

mod answer;
mod build;
mod client;
mod create;
mod fence;
mod fields;
mod forward;
mod rewrite;
mod route;
mod serve;
#[cfg(test)]
mod tests;
mod upstream;

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::os::unix::net::UnixListener as StdListener;
use std::path::PathBuf;
use std::sync::Arc;

use mcp_lifecycle_core::lock::Lock;

use tokio_util::sync::CancellationToken;

pub(crate) use fence::Fence;
pub(crate) use rewrite::Additions;

use crate::control::CONTROL;
use crate::dial::Dial;
use crate::engine::{Engine, State};
use crate::host::Host;

/// The longest path of a Unix socket on every system (macOS: 104).
pub(crate) const LONGEST_PATH: usize = 103;

/// A listening proxy. Dropping it stops listening and removes the socket; open connections continue
/// until either side ends them.
#[derive(Debug)]
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    path: PathBuf,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    upstream: Dial,
    /// The same engine, for our own requests.
    engine: Arc<Engine>,
    additions: Additions,
    host: Host,
    fence: Fence,
    created: Created,
}

/// The IDs of the containers that the engine created for us, and whether each ends with the server.
#[derive(Debug, Default)]
struct Created(Lock<BTreeMap<String, bool>>);

impl Proxy {
    /// Listens at `path`, in a private directory.
    pub(crate) fn start(
        path: PathBuf,
        engine: Arc<Engine>,
        additions: Additions,
        host: Host,
    ) -> io::Result<Self> {
        if path.as_os_str().len() > LONGEST_PATH {
            let problem = format!("{} is too long for a socket", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let upstream = Dial::to(&engine.endpoint)?;
        let listener = StdListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            upstream,
            engine,
            additions,
            host,
            fence: Fence::default(),
            created: Created::default(),
        });
        let proxy = Self {
            shared: Arc::clone(&shared),
            path,
            stop: stop.clone(),
        };
        // The fence is empty only after the listener is closed.
        let pass = shared.fence.hold();
        CONTROL.spawn(async move {
            let _pass = pass;
            tokio::select! {
                () = serve::accept(listener, shared) => {}
                () = stop.cancelled() => {}
            }
        })?;
        Ok(proxy)
    }

    pub(crate) fn close(&self) {
        self.shared.fence.close();
        self.stop.cancel();
        let _ = std::fs::remove_file(&self.path);
    }

    pub(crate) fn fence(&self) -> &Fence {
        &self.shared.fence
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(crate) fn survives_the_host(&self) -> Option<&'static str> {
        let is_willed = self.shared.host.is_willed(&self.shared.engine.endpoint);
        (!is_willed)
            .then_some("nothing outlives the host to end the containers that this server starts")
    }

    pub(crate) fn created(&self) -> BTreeMap<String, bool> {
        self.shared.created.0.lock().clone()
    }

    pub(crate) fn forget(&self, id: &str) {
        self.shared.created.forget(id);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
    }
}

impl Created {
    /// Limit of remembered IDs; more creations are refused.
    const MOST: usize = 16 * 1024;

    /// Number of IDs from which each creation checks others, so that at least half of them exist.
    const FEW: usize = 256;
    const LOOKS: usize = 2;

    fn is_full(&self) -> bool {
        self.0.lock().len() >= Self::MOST
    }

    /// Remembers a new container. Returns others to [check](Self::check): those with the next IDs.
    fn note(&self, id: &str, ends: bool) -> Vec<String> {
        let mut ids = self.0.lock();
        ids.insert(id.to_owned(), ends);
        if ids.len() <= Self::FEW {
            return Vec::new();
        }
        let after = (Bound::Excluded(id), Bound::Unbounded);
        let others = ids.range::<str, _>(after).chain(&*ids);
        others.take(Self::LOOKS).map(|(id, _)| id.clone()).collect()
    }

    async fn check(&self, engine: &Engine, ids: Vec<String>) {
        for id in ids {
            if let Ok(State::Absent) = engine.state(&id).await {
                self.forget(&id);
            }
        }
    }

    fn forget(&self, id: &str) {
        self.0.lock().remove(id);
    }
}
