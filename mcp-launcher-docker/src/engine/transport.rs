//! Turns an [`Endpoint`] into bollard's client. Connections to a remote engine are kept for a while.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bollard::errors::Error;
use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use hyper::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use crate::dial::Dial;
use crate::endpoint::Endpoint;

/// In seconds; every request sets its own limit instead.
const TIMEOUT: u64 = 120;

/// Creates a client. Connects to nothing, but reads certificates.
pub(super) fn open(endpoint: &Endpoint) -> Result<Docker, Error> {
    if let Some(socket) = endpoint.local_socket() {
        let socket = socket.to_string_lossy();
        return Docker::connect_with_unix(&socket, TIMEOUT, API_DEFAULT_VERSION);
    }
    let dial = Arc::new(Dial::to(endpoint)?);
    let connecting = Arc::clone(&dial);
    let connector = tower::service_fn(move |_: Uri| {
        let dial = Arc::clone(&connecting);
        Box::pin(async move { dial.connect().await.map(TokioIo::new) })
    });
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(30))
        .pool_max_idle_per_host(2)
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
