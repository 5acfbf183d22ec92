//! Turns an [`Endpoint`] into bollard's client. Connections to a remote engine are kept for a while.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bollard::errors::Error;
use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use hyper::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tower_service::Service;

use crate::dial::{Connection, Dial};
use crate::endpoint::Endpoint;

/// In seconds; every request sets its own limit instead.
const TIMEOUT: u64 = 120;

const IDLE: Duration = Duration::from_secs(30);
const MOST_IDLE: usize = 2;

/// Creates a client. Connects to nothing, but reads certificates.
pub(super) fn open(endpoint: &Endpoint) -> Result<Docker, Error> {
    if let Some(socket) = endpoint.local_socket() {
        let socket = socket.to_string_lossy();
        return Docker::connect_with_unix(&socket, TIMEOUT, API_DEFAULT_VERSION);
    }
    let connector = Connector(Arc::new(Dial::to(endpoint)?));
    let dial = Arc::clone(&connector.0);
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(MOST_IDLE)
        .build(connector);
    let send = move |request: BollardRequest| {
        let (answer, dial) = (client.request(request), Arc::clone(&dial));
        async move {
            match answer.await {
                Ok(answer) => Ok(answer),
                Err(error) => match dial.last_words().await {
                    Some(words) => Err(io::Error::other(words).into()),
                    None => Err(error.into()),
                },
            }
        }
    };
    Docker::connect_with_custom_transport(send, Some("http://docker"), TIMEOUT, API_DEFAULT_VERSION)
}

#[derive(Clone)]
struct Connector(Arc<Dial>);

impl Service<Uri> for Connector {
    type Response = TokioIo<Connection>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let dial = Arc::clone(&self.0);
        Box::pin(async move { dial.connect().await.map(TokioIo::new) })
    }
}
