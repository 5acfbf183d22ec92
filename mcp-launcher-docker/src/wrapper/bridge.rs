//! A socket of this machine behind which a remote engine is: the proxy speaks to it
//! as to any other. Bytes are copied; what is end of input on one side is on the
//! other.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::control;
use crate::dial::Dial;
use crate::endpoint::Endpoint;

/// So many connections at a time; the proxy in front has bounds of its own.
const MOST: usize = 256;

/// A socket that leads to a remote engine.
///
/// # Drop
///
/// Removes the socket. Connections that are open go on until either side ends them.
#[derive(Debug)]
pub(super) struct Bridge {
    path: PathBuf,
    stop: CancellationToken,
}

impl Bridge {
    /// Listens at `path`, whose directory is private.
    ///
    /// # Errors
    ///
    /// Also where this build lacks the feature for such an endpoint, or the
    /// certificates cannot be used.
    pub(super) fn start(path: PathBuf, endpoint: &Endpoint) -> io::Result<Self> {
        let dial = Arc::new(Dial::to(endpoint)?);
        let listener = std::os::unix::net::UnixListener::bind(&path)?;
        let stop = CancellationToken::new();
        let bridge = Self {
            path,
            stop: stop.clone(),
        };
        std::fs::set_permissions(&bridge.path, PermissionsExt::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        control::spawn(async move {
            tokio::select! {
                error = accept(listener, dial) => debug!(?error, "a bridge ends"),
                () = stop.cancelled() => {}
            }
        })?;
        Ok(bridge)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.stop.cancel();
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn accept(
    listener: std::os::unix::net::UnixListener,
    dial: Arc<Dial>,
) -> io::Result<std::convert::Infallible> {
    let listener = UnixListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(MOST));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.map_err(io::Error::other)?;
        let (client, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            // No descriptor free, or gone already.
            Err(error) => {
                debug!(%error, "a connection is not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let dial = Arc::clone(&dial);
        drop(tokio::spawn(async move {
            let _place = place;
            if let Err(error) = carry(client, &dial).await {
                debug!(%error, "a connection to the engine ends");
            }
        }));
    }
}

async fn carry(mut client: UnixStream, dial: &Dial) -> io::Result<()> {
    let mut engine = dial.connect().await?;
    copy_bidirectional(&mut client, &mut engine).await?;
    Ok(())
}
