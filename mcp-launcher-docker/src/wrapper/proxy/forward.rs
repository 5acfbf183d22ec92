//! Requests that pass to the engine, and their answers back.
//!
//! Each on a connection of its own: nothing of one request is left for another.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{
    CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::uri::PathAndQuery;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio::net::UnixStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::Shared;
use super::answer::{self, Body};
use super::client::Tunnel;
use super::upstream::Upstream;
use crate::labels;

/// The engine could not be asked, or did not answer.
#[derive(Debug)]
pub(super) enum Failure {
    Connect(PathBuf, std::io::Error),
    Answer(String),
}

impl Failure {
    pub(super) fn answer(&self) -> Response<Body> {
        let message = match self {
            Self::Connect(path, error) => {
                format!(
                    "cannot connect to the engine at {}: {error}",
                    path.display()
                )
            }
            Self::Answer(error) => format!("the engine did not answer: {error}"),
        };
        answer::error(StatusCode::BAD_GATEWAY, &message)
    }
}

/// Passes a request on that is one, and no more: whatever protocol its client
/// would like to speak.
pub(super) async fn plain(shared: &Shared, request: Request<Incoming>) -> Response<Body> {
    respond(exchange(shared, request, CancellationToken::new()).await)
}

/// The same; once it is `over`, the engine takes its client for gone.
pub(super) async fn exchange(
    shared: &Shared,
    request: Request<Incoming>,
    over: CancellationToken,
) -> Result<Response<Incoming>, Failure> {
    let (mut head, body) = request.into_parts();
    let closes = is_last(&head.headers, head.version);
    hop_by_hop(&mut head.headers);
    if closes {
        // The engine does not wait for the rest of the body of such a one.
        let close = HeaderValue::from_static("close");
        head.headers.insert(CONNECTION, close);
    }
    let request = Request::from_parts(head, body);
    send(shared, request, Tunnel::default(), over).await
}

/// Passes a request on after which the connection may be a stream of bytes:
/// attach, exec, BuildKit's sessions. It is one only if the engine says so.
pub(super) async fn tunnel(
    shared: &Shared,
    mut request: Request<Incoming>,
    tunnel: Tunnel,
    place: Arc<OwnedSemaphorePermit>,
) -> Response<Body> {
    let Some(protocol) = request.headers().get(UPGRADE).cloned() else {
        return plain(shared, request).await;
    };
    let client = hyper::upgrade::on(&mut request);
    let (mut head, body) = request.into_parts();
    // As in `plain`: the engine may refuse before the body has come.
    let connection = match is_last(&head.headers, head.version) {
        true => "Upgrade, close",
        false => "Upgrade",
    };
    hop_by_hop(&mut head.headers);
    head.headers.insert(UPGRADE, protocol);
    head.headers
        .insert(CONNECTION, HeaderValue::from_static(connection));
    let request = Request::from_parts(head, body.boxed());
    let over = CancellationToken::new();
    let mut answer = match send(shared, request, tunnel.clone(), over).await {
        Ok(answer) => answer,
        Err(failure) => return failure.answer(),
    };
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return respond(Ok(answer));
    }
    let engine = hyper::upgrade::on(&mut answer);
    tunnel.open();
    drop(tokio::spawn(async move {
        if let Err(error) = copy(client, engine).await {
            debug!(%error, "a stream to the engine ended");
        }
        drop(place);
    }));
    // Its headers say which protocol: as they are.
    answer.map(|_| answer::full(Bytes::new()))
}

/// The end of one direction is passed on and leaves the other open.
async fn copy(
    client: OnUpgrade,
    engine: OnUpgrade,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (client, engine) = tokio::try_join!(client, engine)?;
    let (mut client, mut engine) = (TokioIo::new(client), TokioIo::new(engine));
    copy_bidirectional(&mut client, &mut engine).await?;
    Ok(())
}

/// Sends a request to the engine, in the form that a server is asked in.
pub(super) async fn send<B>(
    shared: &Shared,
    request: Request<B>,
    tunnel: Tunnel,
    over: CancellationToken,
) -> Result<Response<Incoming>, Failure>
where
    B: hyper::body::Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
{
    let (mut head, body) = request.into_parts();
    if head.version == Version::HTTP_10 {
        // It may come without one. Without one in HTTP/1.1 it is refused.
        let host = || HeaderValue::from_static("docker");
        head.headers.entry(HOST).or_insert_with(host);
    }
    head.version = Version::HTTP_11;
    let target = head.uri.path_and_query().cloned();
    head.uri = Uri::from(target.unwrap_or(PathAndQuery::from_static("/")));
    if let Some(expected) = head.headers.get(EXPECT)
        && expected.as_bytes().eq_ignore_ascii_case(b"100-continue")
    {
        // The client was told to go on here.
        head.headers.remove(EXPECT);
    }
    if body.is_end_stream() && head.headers.contains_key(TRANSFER_ENCODING) {
        head.headers.remove(TRANSFER_ENCODING);
    }
    // The client's own, for its connection.
    head.extensions.remove::<OnUpgrade>();
    let stream = UnixStream::connect(&shared.upstream).await;
    let stream = stream.map_err(|error| Failure::Connect(shared.upstream.clone(), error))?;
    let failed = |error: hyper::Error| Failure::Answer(error.to_string());
    let (mut engine, connection) = http1::Builder::new()
        .preserve_header_case(true)
        .handshake(TokioIo::new(Upstream::new(stream, tunnel, over)))
        .await
        .map_err(failed)?;
    drop(tokio::spawn(connection.with_upgrades()));
    let request = Request::from_parts(head, body);
    engine.send_request(request).await.map_err(failed)
}

fn respond(answer: Result<Response<Incoming>, Failure>) -> Response<Body> {
    match answer {
        Ok(answer) => {
            let (mut head, body) = answer.into_parts();
            hop_by_hop(&mut head.headers);
            Response::from_parts(head, body.boxed())
        }
        Err(failure) => failure.answer(),
    }
}

/// Returns whether the client wants its connection closed after this request.
fn is_last(headers: &HeaderMap, version: Version) -> bool {
    let says = |what| tokens(headers).any(|token| token.eq_ignore_ascii_case(what));
    says("close") || (version == Version::HTTP_10 && !says("keep-alive"))
}

/// Finds the headers that `Connection` names.
fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CONNECTION).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Takes out what belongs to one connection and not to the message, but for the
/// framing, which is hyper's to see to.
pub(super) fn hop_by_hop(headers: &mut HeaderMap) {
    let listed: Vec<HeaderName> = tokens(headers)
        .filter_map(|name| name.parse().ok())
        .collect();
    let framing = ["content-length", "transfer-encoding", "host"];
    for name in listed {
        if !framing.contains(&name.as_str()) {
            headers.remove(name);
        }
    }
    for name in [
        "connection",
        "keep-alive",
        "proxy-connection",
        "upgrade",
        "http2-settings",
    ] {
        headers.remove(name);
    }
}

/// A commit whose image does not inherit our labels: a container that is run
/// from it is not the server's. Labels cannot be taken out there, only set.
pub(super) fn without_our_labels(mut request: Request<Incoming>) -> Request<Incoming> {
    let target = request.uri().path_and_query();
    let target = target.map_or("/commit", PathAndQuery::as_str);
    let separator = if target.contains('?') { '&' } else { '?' };
    let labels: Vec<_> = labels::ALL.iter().map(|key| format!("{key}=")).collect();
    let target = format!(
        "{target}{separator}changes=LABEL%20{}",
        labels.join("%20").replace('=', "%3D")
    );
    if let Ok(target) = target.parse() {
        *request.uri_mut() = target;
    }
    request
}
