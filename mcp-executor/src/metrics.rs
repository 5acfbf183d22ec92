//! The daemon's metrics, and `GET /metrics` on a separate address.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::{Request, StatusCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::admission::Admission;
use super::http::{Answer, exchange};
use super::origin::Origin;
use super::{Daemon, Shared};

const HEAD: Duration = Duration::from_secs(1);
const REQUEST: Duration = Duration::from_secs(5);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A bound local address for [`Daemon::metrics`].
pub struct MetricsListener(TcpListener);

impl MetricsListener {
    /// Binds a loopback address, since there is no token.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "metrics are served on loopback only, for they need no token",
            ));
        }
        TcpListener::bind(address).await.map(Self)
    }

    /// Returns the URL of the metrics.
    pub fn url(&self) -> io::Result<String> {
        Ok(format!("http://{}/metrics", self.0.local_addr()?))
    }

    /// Serves for ever. Like [`Listener`](super::Listener), it evicts the oldest request if there
    /// are too many.
    pub async fn serve(self, daemon: &Daemon) {
        let admission = Arc::new(Admission::default());
        loop {
            let Ok((stream, peer)) = self.0.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let share = Origin::Network(peer, None).door();
            let ticket = admission.enter(share, Instant::now() + REQUEST);
            let daemon = daemon.clone();
            tokio::spawn(async move {
                let judge = |request: &Request<()>| match request.uri().path() {
                    "/metrics" => Answer::Say(OPEN_METRICS, daemon.metrics()),
                    _ => Answer::Refuse(StatusCode::NOT_FOUND, "there is `/metrics`"),
                };
                let asked = async { Ok(exchange(stream, HEAD, judge).await) };
                let _ = ticket.within(asked).await;
            });
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) refused: Counter,
    pub(super) started: Counter,
    pub(super) not_started: Counter,
    pub(super) gone: Counter,
    pub(super) unproven: Counter,
    pub(super) received: Counter,
    pub(super) sent: Counter,
}

pub(super) fn text(shared: &Shared) -> String {
    let (it, limits) = (&shared.counters, &shared.limits);
    let mut registry = Registry::with_prefix("mcp_executor");
    let processes = it.started.get().saturating_sub(it.gone.get());
    let mut gauge = |name: &str, help: &str, number: usize| {
        registry.register(name, help, ConstGauge::new(number as u64));
    };
    gauge("connections", "Connections", shared.connections.len());
    let sessions = shared.registry.count();
    gauge("sessions", "Sessions, attached or not", sessions);
    gauge("sessions_limit", "Limit of sessions", limits.max_sessions);
    gauge("processes", "Processes not proven gone", processes as usize);
    let (most, memory) = (limits.max_processes, shared.registry.memory());
    gauge("processes_per_session_limit", "Their limit", most);
    gauge("memory_bytes", "Bytes that clients fill", memory);
    let most = limits.max_memory;
    gauge("memory_limit_bytes", "Limit for each token", most);
    let mut counter = |name: &str, help: &str, counter: &Counter| {
        registry.register(name, help, counter.clone());
    };
    counter("connections_refused", "Connections refused", &it.refused);
    counter("processes_started", "Processes started", &it.started);
    counter("processes_refused", "Starts refused", &it.not_started);
    counter("processes_gone", "Processes proven gone", &it.gone);
    counter("processes_unproven", "Ends without proof", &it.unproven);
    counter("received_bytes", "Bytes from clients", &it.received);
    counter("sent_bytes", "Bytes of frames to clients", &it.sent);
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes all text");
    text
}

pub(super) fn count(number: &Counter, more: usize) {
    number.inc_by(more as u64);
}
