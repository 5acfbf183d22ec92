//! [`MetricsListener`]: `GET /metrics` on an address of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::Daemon;
use super::http::{Answer, exchange, get};

/// Requests at once, and how long one may take.
const AT_ONCE: usize = 8;
const LIMIT: Duration = Duration::from_secs(5);

/// A bound address of this machine for [`Metrics`](super::Metrics), not serving
/// yet.
#[derive(Debug)]
pub struct MetricsListener(TcpListener);

impl MetricsListener {
    /// Binds a loopback address: there is no token.
    ///
    /// # Errors
    ///
    /// `AddrInUse` and the like; `PermissionDenied` for any other address.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "metrics are served on loopback only, for everybody there can read them",
            ));
        }
        TcpListener::bind(address).await.map(Self)
    }

    /// The URL of the metrics.
    ///
    /// # Errors
    ///
    /// As the system says; none in practice.
    pub fn url(&self) -> io::Result<String> {
        Ok(format!("http://{}/metrics", self.0.local_addr()?))
    }

    /// Serves for ever.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends it; requests under way are answered.
    pub async fn serve(self, daemon: &Daemon) {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        loop {
            let (accepted, place) =
                tokio::join!(self.0.accept(), Arc::clone(&places).acquire_owned());
            let Ok((mut stream, _)) = accepted else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let daemon = daemon.clone();
            tokio::spawn(async move {
                let judge = |head: &[u8]| judge(head, &daemon);
                let _ = tokio::time::timeout(LIMIT, exchange(&mut stream, judge)).await;
                drop(place);
            });
        }
    }
}

fn judge(head: &[u8], daemon: &Daemon) -> Option<(Answer, usize)> {
    get(head, |path, _| match path {
        "/metrics" => Answer::Say(daemon.metrics().to_string()),
        _ => Answer::Refuse("404 Not Found", "there is `/metrics`"),
    })
}
