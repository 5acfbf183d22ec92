//! A server's own way to the engine: everything passes, creates are labelled.
//!
//! Prior art for the rewriting of creates on the way to the daemon is
//! buildkite/sockguard (archived). One request per connection: `Connection:
//! close` is added to whatever does not upgrade, so that answers are not
//! looked into.

mod body;
mod fence;
mod head;
mod relay;
#[cfg(test)]
mod tests;
mod wire;

use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub(crate) use body::Marks;
pub(crate) use fence::Fence;

use crate::control;

/// The longest path of a Unix socket that every system takes (macOS: 104).
const LONGEST_PATH: usize = 103;

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
    marks: Marks,
    fence: Fence,
}

impl Proxy {
    /// Listens at `path`, whose directory is private.
    pub(crate) fn start(path: PathBuf, upstream: PathBuf, marks: Marks) -> io::Result<Self> {
        if path.as_os_str().len() > LONGEST_PATH {
            let problem = format!("{} is too long for a socket", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let listener = StdListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            upstream,
            marks,
            fence: Fence::default(),
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
                () = accept(listener, shared) => {}
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
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
    }
}

async fn accept(listener: StdListener, shared: Arc<Shared>) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return warn!(%error, "the proxy to the engine cannot listen"),
    };
    loop {
        match listener.accept().await {
            Ok((client, _)) => drop(tokio::spawn(relay::serve(Arc::clone(&shared), client))),
            Err(error) => {
                // Out of descriptors, as a rule: others have to close some.
                warn!(%error, "the proxy to the engine cannot accept");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}
