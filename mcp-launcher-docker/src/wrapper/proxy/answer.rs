use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

pub(super) type Body = BoxBody<Bytes, hyper::Error>;

pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed()
}

pub(super) fn error(status: StatusCode, message: &str) -> Response<Body> {
    let body = serde_json::json!({ "message": message }).to_string();
    let mut answer = Response::new(full(body));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

pub(super) fn refused(problem: &str) -> Response<Body> {
    error(StatusCode::BAD_REQUEST, problem)
}

pub(super) fn busy() -> Response<Body> {
    let problem = "the MCP server has too many streams and waits open at its container engine; \
        end some of its attached clients";
    error(StatusCode::SERVICE_UNAVAILABLE, problem)
}

pub(super) fn ending() -> Response<Body> {
    error(StatusCode::CONFLICT, "the MCP server is being ended")
}

/// Refuses a body in a coding other than chunks, like Go's server: its end cannot be found.
pub(super) fn unread_coding() -> Response<Body> {
    let mut answer = Response::new(full("Unsupported transfer encoding"));
    *answer.status_mut() = StatusCode::NOT_IMPLEMENTED;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, text);
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(CONNECTION, close);
    answer
}
