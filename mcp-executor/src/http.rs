//! The HTTP request that opens a connection or reads the metrics.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_lifecycle_core::lock::Lock;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::server::create_response;

use super::token::{Token, shown};
use crate::protocol::extension;

#[derive(Debug, Error)]
pub(super) enum Refused {
    #[error("the request is none, or not complete")]
    Http(#[from] hyper::Error),
    #[error("{0}")]
    Because(&'static str),
}

pub(super) struct Upgraded<S> {
    pub(super) stream: S,
    pub(super) early: Bytes,
    pub(super) token: Option<Arc<str>>,
}

pub(super) enum Answer {
    Upgrade(Response<()>, Option<Arc<str>>),
    Say(&'static str, String),
    Refuse(StatusCode, &'static str),
}

const PLAIN: &str = "text/plain";

impl Answer {
    fn response(&self) -> Response<Full<Bytes>> {
        let builder = Response::builder();
        let built = match self {
            Self::Upgrade(response, _) => return response.clone().map(|()| Full::default()),
            Self::Say(kind, text) => builder
                .header(header::CONNECTION, "close")
                .header(header::CONTENT_TYPE, *kind)
                .body(text.clone().into()),
            Self::Refuse(status, why) => {
                let builder = match *status {
                    StatusCode::UNAUTHORIZED => builder.header(header::WWW_AUTHENTICATE, "Bearer"),
                    _ => builder,
                };
                builder
                    .status(*status)
                    .header(header::CONNECTION, "close")
                    .header(header::CONTENT_TYPE, PLAIN)
                    .body(format!("{why}\n").into())
            }
        };
        built.expect("these headers are valid")
    }
}

/// Reads one request, with a time limit for its head, and answers it. `None` if it was answered
/// without a WebSocket; fails if that was a refusal or could not be sent.
pub(super) async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    patience: Duration,
    judge: impl Fn(&Request<()>) -> Answer,
) -> Result<Option<Upgraded<S>>, Refused> {
    let given = Lock::new(None);
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let request = request.map(|_| ());
        let answer = match *request.method() {
            Method::GET => judge(&request),
            _ => Answer::Refuse(StatusCode::METHOD_NOT_ALLOWED, "only GET"),
        };
        let response = answer.response();
        *given.lock() = Some(answer);
        ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .max_header_size(16 * 1024)
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .serve_connection(TokioIo::new(stream), service);
    let parts = connection.without_shutdown().await?;
    let (mut stream, early) = (parts.io.into_inner(), parts.read_buf);
    let refused = match given.lock().take() {
        Some(Answer::Upgrade(_, token)) => {
            return Ok(Some(Upgraded {
                stream,
                early,
                token,
            }));
        }
        Some(Answer::Refuse(_, why)) => Some(why),
        Some(Answer::Say(..)) | None => None,
    };
    let _ = stream.shutdown().await;
    match refused {
        Some(why) => Err(Refused::Because(why)),
        None => Ok(None),
    }
}

/// Answers a request for a WebSocket. Without `tokens`, none is required.
pub(super) fn upgrade(request: &Request<()>, tokens: &[Token]) -> Answer {
    let header = |name: HeaderName| request.headers().get(name).map(HeaderValue::as_bytes);
    // Duplicate headers could be read differently elsewhere.
    let twice = |name: HeaderName| request.headers().get_all(name).iter().count() > 1;
    let token = shown(tokens, header(header::AUTHORIZATION));
    if request.uri().path() == "/readyz" {
        return Answer::Say(PLAIN, "ok\n".to_owned());
    }
    let (status, why) = if header(header::ORIGIN).is_some() {
        // Only browsers send an origin, on behalf of any open page.
        (StatusCode::FORBIDDEN, "requests of browsers are refused")
    } else if twice(header::AUTHORIZATION) || twice(header::SEC_WEBSOCKET_KEY) {
        let why = "a header that may be there once is there twice";
        (StatusCode::BAD_REQUEST, why)
    } else if token.is_none() && !tokens.is_empty() {
        (StatusCode::UNAUTHORIZED, "a bearer token is required")
    } else if request.uri().path() != "/" {
        (StatusCode::NOT_FOUND, "there is `/` and `/readyz`")
    } else {
        match create_response(request) {
            Ok(mut response) => {
                let server = HeaderValue::from_static(extension::SERVER);
                response.headers_mut().insert(header::SERVER, server);
                return Answer::Upgrade(response, token.map(Token::name));
            }
            Err(Error::Protocol(ProtocolError::WrongHttpVersion)) => {
                let status = StatusCode::HTTP_VERSION_NOT_SUPPORTED;
                (status, "HTTP/1.1 is required")
            }
            Err(_) => (
                StatusCode::UPGRADE_REQUIRED,
                "this is a WebSocket, version 13",
            ),
        }
    };
    Answer::Refuse(status, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    /// The status of the answer to this text; nothing where it is not complete.
    async fn status(request: &str, token: Option<&Token>) -> String {
        let tokens = token.map_or(&[][..], std::slice::from_ref);
        let (mut client, server) = tokio::io::duplex(64 << 10);
        client.write_all(request.as_bytes()).await.unwrap();
        let served = exchange(server, Duration::from_secs(1), |it| upgrade(it, tokens)).await;
        if matches!(served, Ok(Some(_))) {
            return "101".to_owned();
        }
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(served.is_err(), !answer.starts_with("HTTP/1.1 200"));
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    }

    const ASKS: &str = "Host: x\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

    fn get(version: &str, more: &str) -> String {
        format!("GET / HTTP/{version}\r\n{ASKS}{more}\r\n")
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_plain_client_with_the_token_gets_a_websocket() {
        let token = &Token::new("0123456789abcdef").unwrap();
        let right = get("1.1", "Authorization: Bearer 0123456789abcdef\r\n");
        let foreign = get("1.1", "Origin: https://evil.example\r\n");
        for (request, token, expected) in [
            (&*get("1.1", ""), None, "101"),
            (&foreign, None, "403"),
            (&get("1.1", ""), Some(token), "401"),
            (&right, Some(token), "101"),
            ("GET /readyz HTTP/1.1\r\n\r\n", Some(token), "200"),
            ("GET / HTTP/1.1\r\n\r\n", None, "426"),
            ("POST / HTTP/1.1\r\n\r\n", None, "405"),
            ("\u{1}\u{2}\r\n\r\n", None, "400"),
        ] {
            assert_eq!(status(request, token).await, expected, "{request}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_be_read_in_two_ways_is_refused() {
        let token = Token::new("0123456789abcdef").unwrap();
        let right = "Authorization: Bearer 0123456789abcdef\r\n";
        let wrong = "Authorization: Bearer 0123456789abcdeg\r\n";
        for twice in [[right, wrong], [wrong, right], [right, right]] {
            let twice = get("1.1", &twice.concat());
            assert_eq!(status(&twice, Some(&token)).await, "400", "{twice}");
        }
        let key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
        assert_eq!(status(&get("1.1", key), None).await, "400");
        assert_eq!(status(&get("1.0", ""), None).await, "505");
        // Also one that comes in a single packet.
        let long = format!("X: {}\r\n", "x".repeat(20 << 10));
        assert_eq!(status(&get("1.1", &long), None).await, "431");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_end_has_its_time() {
        let (mut client, server) = tokio::io::duplex(1024);
        client.write_all(b"GET / HTTP/1.1\r\nX: ").await.unwrap();
        let begun = tokio::time::Instant::now();
        let served = exchange(server, Duration::from_secs(1), |it| upgrade(it, &[])).await;
        assert!(served.is_err());
        assert_eq!(begun.elapsed().as_secs(), 1);
    }
}
