//! Create requests: read whole, labelled, and seen through.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use hyper::{Request, Response, StatusCode};
use serde::Deserialize;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::answer::{self, Body};
use super::client::Tunnel;
use super::forward::{self, Failure};
use super::rewrite::rewrite;
use super::route::Kind;
use super::serve::Place;
use crate::container::LATE_CREATE;
use crate::engine::is_between;

/// Longest body in bytes; no CLI sends as much.
pub(super) const LONGEST: usize = 512 * 1024;

/// Time for which a creation without a response counts as in progress. Shorter in tests.
const LATE: Duration = match cfg!(test) {
    true => Duration::from_secs(3),
    false => LATE_CREATE,
};

const BODY: Duration = Duration::from_secs(60);

pub(super) async fn create(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
    kind: Kind,
    place: Arc<Place>,
) -> Response<Body> {
    let Some(pass) = shared.fence.enter() else {
        return answer::ending();
    };
    if shared.created.is_full() {
        return answer::refused("the MCP server has more containers than are kept track of");
    }
    let (mut head, body) = request.into_parts();
    let body = tokio::select! {
        biased;
        // Waiters for the fence must not wait for this client.
        () = shared.fence.closed() => return answer::ending(),
        body = timeout(BODY, read(body)) => body,
    };
    let body = match body {
        Ok(Ok(body)) => body,
        Ok(Err(refusal)) => return refusal,
        Err(_) => {
            let problem = "the body of a create did not come in time";
            return answer::error(StatusCode::REQUEST_TIMEOUT, problem);
        }
    };
    let (body, ends) = match rewrite(&body, kind, &shared.additions) {
        Ok(new) => new,
        Err(problem) => {
            let problem = format!("a create that cannot be tied to the MCP server: {problem}");
            return answer::refused(&problem);
        }
    };
    shared.host.cover(&shared.engine.endpoint);
    forward::hop_by_hop(&mut head.headers);
    head.headers.remove(TRANSFER_ENCODING);
    head.headers
        .insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let request = Request::from_parts(head, Full::new(Bytes::from(body)));
    // Completed even without the client: the daemon creates it in any case.
    let exchange = tokio::spawn({
        let shared = Arc::clone(shared);
        async move {
            // It may outlive its client's connection.
            let _place = place;
            let answer = exchange(&shared, request).await;
            match &answer {
                Ok(answer) if !is_the_engines(answer) => shared.fence.leave_unheard(pass, LATE),
                Ok(answer) => note(&shared, ends, answer),
                // Not sent.
                Err(Failure::Connect(..)) => {}
                Err(Failure::Answer(_)) => shared.fence.leave_unheard(pass, LATE),
            }
            answer
        }
    });
    match exchange.await {
        Ok(Ok(answer)) => answer.map(answer::full),
        Ok(Err(failure)) => failure.answer(),
        Err(error) => answer::error(StatusCode::BAD_GATEWAY, &error.to_string()),
    }
}

async fn read(body: Incoming) -> Result<Bytes, Response<Body>> {
    let too_long = || {
        let problem = "the body of a create is longer than 512 KiB";
        answer::error(StatusCode::PAYLOAD_TOO_LARGE, problem)
    };
    if body.size_hint().lower() > LONGEST as u64 {
        return Err(too_long());
    }
    match Limited::new(body, LONGEST).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_long()),
        Err(_) => Err(answer::refused(
            "the body of a create does not come to an end",
        )),
    }
}

async fn exchange(
    shared: &Shared,
    request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, Failure> {
    let answer =
        forward::send(shared, request, Tunnel::default(), CancellationToken::new()).await?;
    let (mut head, body) = answer.into_parts();
    let body = Limited::new(body, 1024 * 1024).collect().await;
    let body = body.map_err(|error| Failure::Answer(error.to_string()))?;
    forward::hop_by_hop(&mut head.headers);
    head.headers.remove(TRANSFER_ENCODING);
    head.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(head, body.to_bytes()))
}

/// Returns whether the response is from the engine rather than from a gateway, which may have given
/// up on a creation that the engine continues. An engine's response has its API version.
fn is_the_engines(answer: &Response<Bytes>) -> bool {
    !is_between(answer.status().as_u16()) || answer.headers().contains_key("api-version")
}

fn note(shared: &Arc<Shared>, ends: bool, answer: &Response<Bytes>) {
    #[derive(Deserialize)]
    struct Created {
        #[serde(rename = "Id")]
        id: String,
    }

    if answer.status().is_success()
        && let Ok(created) = serde_json::from_slice::<Created>(answer.body())
    {
        let others = shared.created.note(&created.id, ends);
        let shared = Arc::clone(shared);
        // The client does not wait for this.
        drop(tokio::spawn(async move {
            shared.created.check(&shared.engine, others).await
        }));
    }
}
