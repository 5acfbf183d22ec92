//! Accepts, bounds and routes connections to the proxy.

use std::convert::Infallible;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_lifecycle_core::lock::Lock;
use nix::sys::resource::{Resource, getrlimit};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, warn};

use super::answer::{self, Body};
use super::client::{self, Tunnel};
use super::route::{Route, route};
use super::{Shared, build, create, forward};

/// Time limit of a request's head, also on an idle kept-alive connection. The same as the daemon's.
const HEAD: Duration = Duration::from_secs(5 * 60);

/// Maximum size of a head in bytes, which is buffered. The daemon accepts eight times as much.
pub(super) const LONGEST_HEAD: usize = 128 * 1024;

pub(super) async fn accept(listener: StdListener, shared: Arc<Shared>) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return warn!(%error, "the proxy to the engine cannot listen"),
    };
    let places = Places::new();
    // Without a place, clients wait in the backlog.
    while let Some(place) = places.next().await {
        match listener.accept().await {
            Ok((client, _)) => {
                drop(tokio::spawn(connection(Arc::clone(&shared), client, place)));
            }
            Err(error) => {
                // Usually out of descriptors: others must close some.
                warn!(%error, "the proxy to the engine cannot accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(shared: Arc<Shared>, client: UnixStream, place: Arc<Place>) {
    let tunnel = Tunnel::default();
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
        .max_headers(1024)
        .preserve_header_case(true)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(client::of(client, tunnel)), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = closing.fence.closed() => {
            // The request in progress is answered; no other is accepted.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        debug!(%error, "a connection to the engine ended");
    }
}

fn are_chunks(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let first = codings.next();
    first.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
        && codings.next().is_none()
}

/// Answers a request. The connection is closed after one that has waited, which leaves its place.
async fn answer(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
    tunnel: Tunnel,
    place: Arc<Place>,
) -> Response<Body> {
    if !are_chunks(request.headers()) {
        return answer::unread_coding();
    }
    let found = route(request.method(), request.uri());
    let waits = matches!(found, Route::Tunnel | Route::Waiting);
    let mut answer = match waits && !place.wait() {
        true => answer::busy(),
        false => routed(shared, request, found, tunnel, Arc::clone(&place)).await,
    };
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS && (waits || place.is_scarce()) {
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(CONNECTION, close);
    }
    answer
}

async fn routed(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
    found: Route,
    tunnel: Tunnel,
    place: Arc<Place>,
) -> Response<Body> {
    match found {
        Route::Create(kind) => create::create(shared, request, kind, place).await,
        Route::Unlabelled(what) => {
            let problem =
                format!("{what} creates containers that cannot be tied to the MCP server");
            answer::refused(&problem)
        }
        Route::Nothing => answer::error(StatusCode::NOT_FOUND, "page not found"),
        Route::Commit => {
            forward::plain(
                shared,
                forward::without_our_labels(request, &shared.additions.mark),
            )
            .await
        }
        Route::Build => build::build(shared, request, place).await,
        Route::Tunnel => forward::tunnel(shared, request, tunnel, place).await,
        Route::Waiting | Route::Other => forward::plain(shared, request).await,
    }
}

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
