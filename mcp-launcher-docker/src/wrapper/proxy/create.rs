//! A request that creates something: read whole, labelled, and seen through.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use hyper::{Request, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::answer::{self, Body};
use super::body::{self, Unread, Whole};
use super::client::Tunnel;
use super::forward::{self, Failure};
use super::rewrite::rewrite;
use super::route::Kind;
use crate::container::LATE_CREATE;
use crate::engine::is_between;

/// The longest time a body may take to come.
const BODY: Duration = Duration::from_secs(60);

/// The longest answer to a create.
const LONGEST_ANSWER: usize = 1024 * 1024;

/// How long a create that was sent and not answered is taken to be under way, in which
/// time it is looked for: the engine cancels none whose client has gone. Tests do not
/// wait for so long.
const LATE: Duration = match cfg!(test) {
    true => Duration::from_secs(3),
    false => LATE_CREATE,
};

pub(super) async fn create(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
    kind: Kind,
    place: Arc<OwnedSemaphorePermit>,
) -> Response<Body> {
    let Some(pass) = shared.fence.enter() else {
        return answer::ending();
    };
    let (mut head, body) = request.into_parts();
    let body = tokio::select! {
        biased;
        // Who waits for the fence must not have to wait for this client.
        () = shared.fence.closed() => return answer::ending(),
        body = timeout(BODY, body::read(shared, body)) => body,
    };
    let body = match body {
        Ok(Ok(body)) => body,
        Ok(Err(Unread::TooLong)) => {
            let problem = "the body of a create is longer than 16 MiB";
            return answer::error(StatusCode::PAYLOAD_TOO_LARGE, problem);
        }
        Ok(Err(Unread::Cut)) => {
            return answer::refused("the body of a create does not come to an end");
        }
        Err(_) => {
            let problem = "the body of a create did not come in time";
            return answer::error(StatusCode::REQUEST_TIMEOUT, problem);
        }
    };
    let body = match rewritten(shared, body, kind).await {
        Ok(body) => body,
        Err(problem) => {
            let problem = format!("a create that cannot be tied to the MCP server: {problem}");
            return answer::refused(&problem);
        }
    };
    if let Some(wills) = shared.wills.as_ref().filter(|_| kind != Kind::Lasting) {
        wills.cover(&shared.upstream);
    }
    forward::hop_by_hop(&mut head.headers);
    head.headers.remove(TRANSFER_ENCODING);
    head.headers
        .insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let request = Request::from_parts(head, Full::new(body));
    // Nobody is going to look for what is not ended.
    let pass = (kind != Kind::Lasting).then_some(pass);
    // To its end, even when the client has gone: the daemon creates it anyway,
    // and the fence has to know when that is over.
    let exchange = tokio::spawn({
        let shared = Arc::clone(shared);
        async move {
            // It may outlive its client's connection.
            let _place = place;
            let answer = exchange(&shared, request).await;
            match &answer {
                Ok(answer) if !is_the_engines(answer) => shared.fence.leave_unheard(pass, LATE),
                Ok(answer) => note(&shared, kind, answer),
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

/// The body with what is ours in it. A long one keeps nobody else waiting on the thread
/// that all servers share.
async fn rewritten(shared: &Arc<Shared>, body: Whole, kind: Kind) -> Result<Bytes, String> {
    if !body.is_long() {
        let new = rewrite(&body.bytes, kind, &shared.additions)?;
        return Ok(body.replaced_by(new));
    }
    let shared = Arc::clone(shared);
    let task = tokio::task::spawn_blocking(move || {
        let new = rewrite(&body.bytes, kind, &shared.additions)?;
        Ok(body.replaced_by(new))
    });
    task.await.map_err(|error| error.to_string())?
}

async fn exchange(
    shared: &Shared,
    request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, Failure> {
    let answer =
        forward::send(shared, request, Tunnel::default(), CancellationToken::new()).await?;
    let (mut head, body) = answer.into_parts();
    let body = Limited::new(body, LONGEST_ANSWER).collect().await;
    let body = body.map_err(|error| Failure::Answer(error.to_string()))?;
    forward::hop_by_hop(&mut head.headers);
    head.headers.remove(TRANSFER_ENCODING);
    head.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(head, body.to_bytes()))
}

/// Returns whether the engine has answered, and nothing between it and us: that may have given
/// up on a create that the engine goes on with. Each answer of an engine has the version
/// of its API.
fn is_the_engines(answer: &Response<Bytes>) -> bool {
    !is_between(answer.status().as_u16()) || answer.headers().contains_key("api-version")
}

/// Remembers what was created.
fn note(shared: &Shared, kind: Kind, answer: &Response<Bytes>) {
    #[derive(Deserialize)]
    struct Created {
        #[serde(rename = "Id")]
        id: String,
    }

    if kind != Kind::Lasting
        && answer.status().is_success()
        && let Ok(created) = serde_json::from_slice::<Created>(answer.body())
    {
        shared.created.note(&created.id);
    }
}
