//! The HTTP request that opens a connection.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::token::{Token, shown};

/// A request head is never larger.
const HEAD: usize = 16 * 1024;

/// Why there is no WebSocket.
#[derive(Debug, Error)]
pub(super) enum Refused {
    #[error("the transport failed")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Because(&'static str),
}

/// Bytes that came after a request, for the WebSocket, and the name of the token
/// that it showed.
pub(super) type Upgraded = (Vec<u8>, Option<Arc<str>>);

/// Reads the request and answers it. `None` when there is to be no WebSocket, and
/// all is well. Without tokens none is asked for.
pub(super) async fn upgrade<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    tokens: &[Token],
) -> Result<Option<Upgraded>, Refused> {
    exchange(stream, |head| judge(head, tokens)).await
}

/// As [`upgrade`]; `judge` has the answer once a request is complete, and its
/// length.
pub(super) async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    judge: impl Fn(&[u8]) -> Option<(Answer, usize)>,
) -> Result<Option<Upgraded>, Refused> {
    let mut head = Vec::with_capacity(1024);
    let (answer, rest) = loop {
        if stream.read_buf(&mut head).await? == 0 {
            if head.is_empty() {
                // Somebody looked whether somebody listens.
                return Ok(None);
            }
            return Err(Refused::Because(
                "the client left in the middle of its request",
            ));
        }
        match judge(&head) {
            Some((answer, length)) => break (answer, head.split_off(length)),
            None if head.len() > HEAD => {
                break (TOO_LARGE, Vec::new());
            }
            None => {}
        }
    };
    match answer {
        Answer::Upgrade(accept, token) => {
            let text = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                 Connection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
            );
            stream.write_all(text.as_bytes()).await?;
            stream.flush().await?;
            Ok(Some((rest, token)))
        }
        Answer::Say(text) => {
            say(stream, "200 OK", &text).await?;
            Ok(None)
        }
        Answer::Refuse(status, why) => {
            say(stream, status, &format!("{why}\n")).await?;
            Err(Refused::Because(why))
        }
    }
}

async fn say<S: AsyncWrite + Unpin>(stream: &mut S, status: &str, text: &str) -> io::Result<()> {
    let challenge = match status.starts_with("401") {
        true => "WWW-Authenticate: Bearer\r\n",
        false => "",
    };
    let text = format!(
        "HTTP/1.1 {status}\r\n{challenge}Content-Type: text/plain\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(text.as_bytes()).await?;
    stream.flush().await?;
    let _ = stream.shutdown().await;
    Ok(())
}

pub(super) enum Answer {
    /// The proof that the request was understood, and the name of its token.
    Upgrade(String, Option<Arc<str>>),
    /// A text, and all is well.
    Say(String),
    Refuse(&'static str, &'static str),
}

const TOO_LARGE: Answer = Answer::Refuse("431 Request Header Fields Too Large", "too large");

/// The answer to a request, and its length; `None` while it is not complete.
fn judge(head: &[u8], tokens: &[Token]) -> Option<(Answer, usize)> {
    get(head, |path, request| answer(path, request, tokens))
}

/// As [`judge`], of any request with `GET`; its path has no query.
pub(super) fn get(
    head: &[u8],
    answer: impl FnOnce(&str, &httparse::Request<'_, '_>) -> Answer,
) -> Option<(Answer, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(head) {
        Ok(httparse::Status::Complete(length)) if length > HEAD => {
            return Some((TOO_LARGE, length));
        }
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return None,
        Err(_) => return Some((Answer::Refuse("400 Bad Request", "not HTTP"), head.len())),
    };
    let path = request.path.unwrap_or("").split('?').next().unwrap_or("");
    let answer = match request.method {
        Some("GET") => answer(path, &request),
        _ => Answer::Refuse("405 Method Not Allowed", "only GET"),
    };
    Some((answer, length))
}

fn answer(path: &str, request: &httparse::Request<'_, '_>, tokens: &[Token]) -> Answer {
    let header = |name: &str| {
        let mut found = request
            .headers
            .iter()
            .filter(|h| h.name.eq_ignore_ascii_case(name));
        found.next().map(|header| header.value)
    };
    // Two readers of this could take different ones.
    let twice = |name: &str| {
        let same = request.headers.iter();
        same.filter(|h| h.name.eq_ignore_ascii_case(name)).count() > 1
    };
    let names = |name: &str, word: &[u8]| {
        header(name).is_some_and(|value| {
            value
                .split(|b| *b == b',')
                .any(|part| part.trim_ascii().eq_ignore_ascii_case(word))
        })
    };
    let token = shown(tokens, header("authorization"));
    if path == "/readyz" {
        Answer::Say("ok\n".to_owned())
    } else if header("origin").is_some() {
        // Only browsers send one, on behalf of whatever page is open.
        Answer::Refuse("403 Forbidden", "requests of browsers are refused")
    } else if twice("authorization") || twice("sec-websocket-key") {
        Answer::Refuse(
            "400 Bad Request",
            "a header that may be there once is there twice",
        )
    } else if token.is_none() && !tokens.is_empty() {
        Answer::Refuse("401 Unauthorized", "a bearer token is required")
    } else if path != "/" {
        Answer::Refuse("404 Not Found", "there is `/` and `/readyz`")
    } else if request.version != Some(1) {
        Answer::Refuse("505 HTTP Version Not Supported", "HTTP/1.1 is required")
    } else if !names("upgrade", b"websocket") || !names("connection", b"upgrade") {
        Answer::Refuse("426 Upgrade Required", "this is a WebSocket")
    } else if header("sec-websocket-version") != Some(b"13") {
        Answer::Refuse("400 Bad Request", "WebSocket version 13 is required")
    } else {
        match header("sec-websocket-key") {
            Some(key) if is_key(key) => {
                Answer::Upgrade(derive_accept_key(key), token.map(Token::name))
            }
            _ => Answer::Refuse("400 Bad Request", "no valid Sec-WebSocket-Key"),
        }
    }
}

/// Sixteen bytes in base64 (RFC 6455, section 4.2.1).
fn is_key(key: &[u8]) -> bool {
    let decoded = base64::engine::general_purpose::STANDARD.decode(key);
    decoded.is_ok_and(|bytes| bytes.len() == 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &str, token: Option<&Token>) -> String {
        match judge(request.as_bytes(), token.map_or(&[], std::slice::from_ref)) {
            Some((Answer::Upgrade(..), _)) => "101".to_owned(),
            Some((Answer::Say(_), _)) => "200".to_owned(),
            Some((Answer::Refuse(status, _), _)) => status[..3].to_owned(),
            None => "more".to_owned(),
        }
    }

    #[test]
    fn only_a_plain_client_with_the_token_gets_a_websocket() {
        let base = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let with = |more: &str| format!("{base}{more}\r\n");
        let token = Token::new("0123456789abcdef").unwrap();
        assert_eq!(status(&with(""), None), "101");
        assert_eq!(
            status(&with("Origin: https://evil.example\r\n"), None),
            "403"
        );
        assert_eq!(status(&with(""), Some(&token)), "401");
        let right = with("Authorization: Bearer 0123456789abcdef\r\n");
        assert_eq!(status(&right, Some(&token)), "101");
        assert_eq!(status(base, None), "more");
        assert_eq!(status("GET /readyz HTTP/1.1\r\n\r\n", Some(&token)), "200");
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n", None), "426");
        assert_eq!(status("POST / HTTP/1.1\r\n\r\n", None), "405");
        assert_eq!(status("\u{1}\u{2}\r\n\r\n", None), "400");
    }

    #[test]
    fn what_may_be_read_in_two_ways_is_refused() {
        let token = Token::new("0123456789abcdef").unwrap();
        let base = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let get = |version: &str, more: &str| format!("GET / HTTP/{version}\r\n{base}{more}\r\n");
        let right = "Authorization: Bearer 0123456789abcdef\r\n";
        let wrong = "Authorization: Bearer 0123456789abcdeg\r\n";
        assert_eq!(status(&get("1.1", right), Some(&token)), "101");
        for twice in [[right, wrong], [wrong, right], [right, right]] {
            let twice = get("1.1", &twice.concat());
            assert_eq!(status(&twice, Some(&token)), "400", "{twice}");
        }
        let key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
        assert_eq!(status(&get("1.1", key), None), "400");
        assert_eq!(status(&get("1.0", ""), None), "505");
        // Also one that comes in a single packet.
        let long = format!("X: {}\r\n", "x".repeat(20 << 10));
        assert_eq!(status(&get("1.1", &long), None), "431");
    }
}
