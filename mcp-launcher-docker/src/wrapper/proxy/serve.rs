//! The connections to the proxy: accepted, bounded, routed request by request.

use std::convert::Infallible;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HeaderMap, TRANSFER_ENCODING};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, warn};

use super::answer::{self, Body};
use super::client::{self, Tunnel};
use super::route::{Route, route};
use super::{Shared, build, create, forward};

/// Connections of one server that are served at a time: two descriptors each.
pub(super) const CONNECTIONS: usize = 128;

/// The longest time the head of a request may take to come, also the next one's of a
/// connection that is kept alive. The daemon's own limit.
const HEAD: Duration = Duration::from_secs(5 * 60);

/// The longest head, and as much of a connection is held: 16 MiB for all of a server. The
/// daemon itself takes eight times as much; the credentials of fifty registries, which are
/// the longest header that clients send, fit.
pub(super) const LONGEST_HEAD: usize = 128 * 1024;

/// Headers of one request. The daemon counts none but their bytes.
const HEADERS: usize = 1024;

pub(super) async fn accept(listener: StdListener, shared: Arc<Shared>) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return warn!(%error, "the proxy to the engine cannot listen"),
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The backlog waits for a place, as it does for a daemon that is slow.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((client, _)) => {
                drop(tokio::spawn(connection(Arc::clone(&shared), client, place)));
            }
            Err(error) => {
                // Out of descriptors, as a rule: others have to close some.
                warn!(%error, "the proxy to the engine cannot accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(shared: Arc<Shared>, client: UnixStream, place: OwnedSemaphorePermit) {
    let tunnel = Tunnel::default();
    // A tunnel outlives the connection as HTTP, and keeps its place.
    let place = Arc::new(place);
    let closing = Arc::clone(&shared);
    let service = service_fn({
        let tunnel = tunnel.clone();
        move |request| {
            let (shared, place) = (Arc::clone(&shared), Arc::clone(&place));
            let tunnel = tunnel.clone();
            async move { Ok::<_, Infallible>(answer(&shared, request, tunnel, place).await) }
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(HEADERS)
        .preserve_header_case(true)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(client::of(client, tunnel)), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = closing.fence.closed() => {
            // What is under way is answered. Nothing else is asked any more.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        debug!(%error, "a connection to the engine ended");
    }
}

/// Returns whether a body that is in a coding comes in chunks, and in no other besides.
fn are_chunks(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let first = codings.next();
    first.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
        && codings.next().is_none()
}

async fn answer(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
    tunnel: Tunnel,
    place: Arc<OwnedSemaphorePermit>,
) -> Response<Body> {
    if !are_chunks(request.headers()) {
        return answer::unread_coding();
    }
    let found = route(request.method(), request.uri());
    match found {
        Route::Create(kind) => create::create(shared, request, kind, place).await,
        Route::Unlabelled(what) => {
            let problem =
                format!("{what} creates containers that cannot be tied to the MCP server");
            answer::refused(&problem)
        }
        Route::Nothing => answer::error(StatusCode::NOT_FOUND, "page not found"),
        Route::Commit => forward::plain(shared, forward::without_our_labels(request)).await,
        Route::Build => build::build(shared, request, place).await,
        Route::Tunnel => forward::tunnel(shared, request, tunnel, place).await,
        Route::Other => forward::plain(shared, request).await,
    }
}
