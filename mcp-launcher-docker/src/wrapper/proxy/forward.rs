//! Forwards requests to the engine, and its responses back, each on its own connection.

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
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::Shared;
use super::answer::{self, Body};
use super::client::Tunnel;
use super::serve::Place;
use super::upstream::Upstream;
use crate::endpoint::Endpoint;
use crate::labels::Mark;

#[derive(Debug)]
pub(super) enum Failure {
    Connect(Endpoint, std::io::Error),
    Answer(String),
}

impl Failure {
    pub(super) fn answer(&self) -> Response<Body> {
        let message = match self {
            Self::Connect(endpoint, error) => {
                format!("cannot connect to the engine at {endpoint}: {error}")
            }
            Self::Answer(error) => format!("the engine did not answer: {error}"),
        };
        answer::error(StatusCode::BAD_GATEWAY, &message)
    }
}

/// Forwards a plain request, without any upgrade that its client wants.
pub(super) async fn plain(shared: &Shared, request: Request<Incoming>) -> Response<Body> {
    respond(exchange(shared, request, CancellationToken::new()).await)
}

/// Does the same; once `over` is cancelled, the engine sees its client as gone.
pub(super) async fn exchange(
    shared: &Shared,
    request: Request<Incoming>,
    over: CancellationToken,
) -> Result<Response<Incoming>, Failure> {
    let (mut head, body) = request.into_parts();
    let closes = is_last(&head.headers, head.version);
    hop_by_hop(&mut head.headers);
    if closes {
        // Then the engine does not wait for the rest of a body.
        let close = HeaderValue::from_static("close");
        head.headers.insert(CONNECTION, close);
    }
    let request = Request::from_parts(head, body);
    send(shared, request, Tunnel::default(), over).await
}

/// Forwards a request after which the connection may become a byte stream, if the engine decides so.
pub(super) async fn tunnel(
    shared: &Shared,
    mut request: Request<Incoming>,
    tunnel: Tunnel,
    place: Arc<Place>,
) -> Response<Body> {
    let Some(protocol) = request.headers().get(UPGRADE).cloned() else {
        return plain(shared, request).await;
    };
    let client = hyper::upgrade::on(&mut request);
    let (mut head, body) = request.into_parts();
    // As in `plain`: the engine may refuse before the body has arrived.
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
    tunnel.cancel();
    drop(tokio::spawn(async move {
        if let Err(error) = copy(client, engine).await {
            debug!(%error, "a stream to the engine ended");
        }
        drop(place);
    }));
    // Its headers name the protocol, so they stay.
    answer.map(|_| answer::full(Bytes::new()))
}

/// Copies both directions; the end of one leaves the other open.
async fn copy(
    client: OnUpgrade,
    engine: OnUpgrade,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (client, engine) = tokio::try_join!(client, engine)?;
    let (mut client, mut engine) = (TokioIo::new(client), TokioIo::new(engine));
    copy_bidirectional(&mut client, &mut engine).await?;
    Ok(())
}

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
        // HTTP/1.0 allows a missing host, HTTP/1.1 does not.
        let host = || HeaderValue::from_static("docker");
        head.headers.entry(HOST).or_insert_with(host);
    }
    head.version = Version::HTTP_11;
    let target = head.uri.path_and_query().cloned();
    head.uri = Uri::from(target.unwrap_or(PathAndQuery::from_static("/")));
    if let Some(expected) = head.headers.get(EXPECT)
        && expected.as_bytes().eq_ignore_ascii_case(b"100-continue")
    {
        // The proxy has already answered it.
        head.headers.remove(EXPECT);
    }
    if body.is_end_stream() && head.headers.contains_key(TRANSFER_ENCODING) {
        head.headers.remove(TRANSFER_ENCODING);
    }
    // It belongs to the client's connection.
    head.extensions.remove::<OnUpgrade>();
    let connected = shared.upstream.connect().await;
    let stream =
        connected.map_err(|error| Failure::Connect(shared.engine.endpoint.clone(), error))?;
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

fn is_last(headers: &HeaderMap, version: Version) -> bool {
    let says = |what| tokens(headers).any(|token| token.eq_ignore_ascii_case(what));
    says("close") || (version == Version::HTTP_10 && !says("keep-alive"))
}

fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CONNECTION).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Removes hop-by-hop headers, except for the framing, which hyper handles.
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

/// Clears our labels in the image of a commit, so that containers run from it do not count as the
/// server's. A commit cannot remove labels, only set them.
pub(super) fn without_our_labels(mut request: Request<Incoming>, mark: &Mark) -> Request<Incoming> {
    let target = request.uri().path_and_query();
    let target = target.map_or("/commit", PathAndQuery::as_str);
    let separator = if target.contains('?') { '&' } else { '?' };
    let labels = mark.all.keys();
    let labels: Vec<_> = labels.map(|key| format!("{key}=")).collect();
    let target = format!(
        "{target}{separator}changes=LABEL%20{}",
        labels.join("%20").replace('=', "%3D")
    );
    if let Ok(target) = target.parse() {
        *request.uri_mut() = target;
    }
    request
}
