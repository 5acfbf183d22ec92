//! Answers of the proxy's own, in the form of the engine's.

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

/// The body of an answer: the engine's as it comes, or one of ours.
pub(super) type Body = BoxBody<Bytes, hyper::Error>;

pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed()
}

/// An error, as the daemon puts it.
pub(super) fn error(status: StatusCode, message: &str) -> Response<Body> {
    let body = serde_json::json!({ "message": message }).to_string();
    let mut answer = Response::new(full(body));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

/// A request that would create something that could not be labelled.
pub(super) fn refused(problem: &str) -> Response<Body> {
    error(StatusCode::BAD_REQUEST, problem)
}

/// The server is being ended: nothing is created for it any more.
pub(super) fn ending() -> Response<Body> {
    error(StatusCode::CONFLICT, "the MCP server is being ended")
}

/// The end of a body in another coding than chunks cannot be found. As Go's server puts it.
pub(super) fn unread_coding() -> Response<Body> {
    let mut answer = Response::new(full("Unsupported transfer encoding"));
    *answer.status_mut() = StatusCode::NOT_IMPLEMENTED;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, text);
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(CONNECTION, close);
    answer
}
