//! The build of an image. Its containers cannot be labelled, but they end before the engine's
//! response does. So the response is read to its end, even without a client, and counts as a
//! creation in progress.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::http::response::Parts;
use hyper::{Request, Response, StatusCode};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::answer::{self, Body};
use super::forward::{self, Failure};
use super::serve::Place;

type Frames = mpsc::Sender<Result<Frame<Bytes>, hyper::Error>>;

pub(super) async fn build(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
    place: Arc<Place>,
) -> Response<Body> {
    let Some(pass) = shared.fence.enter() else {
        return answer::ending();
    };
    let (begun, head) = oneshot::channel();
    let (frames, body) = mpsc::channel(1);
    let shared = Arc::clone(shared);
    drop(tokio::spawn(async move {
        // It may outlive its client's connection and keeps its permit.
        let _kept = (pass, place);
        let over = CancellationToken::new();
        let exchange = carry(&shared, request, begun, &frames, &over);
        let mut exchange = std::pin::pin!(exchange);
        tokio::select! {
            () = &mut exchange => return,
            () = frames.closed() => {}
            () = shared.fence.closed() => {}
        }
        over.cancel();
        exchange.await;
    }));
    match head.await {
        Ok(Ok(head)) => {
            let body = stream::unfold(body, async |mut body| Some((body.recv().await?, body)));
            Response::from_parts(head, BodyExt::boxed(StreamBody::new(body)))
        }
        Ok(Err(failure)) => failure.answer(),
        Err(_) => answer::error(StatusCode::BAD_GATEWAY, "the build was given up"),
    }
}

/// Forwards the response while it has a reader, and drains the rest.
async fn carry(
    shared: &Shared,
    request: Request<Incoming>,
    begun: oneshot::Sender<Result<Parts, Failure>>,
    frames: &Frames,
    over: &CancellationToken,
) {
    let answer = forward::exchange(shared, request, over.clone()).await;
    let (mut head, mut body) = match answer {
        Ok(answer) => answer.into_parts(),
        Err(failure) => return drop(begun.send(Err(failure))),
    };
    forward::hop_by_hop(&mut head.headers);
    let _ = begun.send(Ok(head));
    while let Some(frame) = body.frame().await {
        let is_cut = frame.is_err();
        tokio::select! {
            biased;
            () = over.cancelled() => {}
            _ = frames.send(frame) => {}
        }
        if is_cut {
            return;
        }
    }
}
