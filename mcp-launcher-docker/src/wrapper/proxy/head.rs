//! The head of an HTTP/1.1 request, as far as the proxy has to understand it.
//! Pure.

use std::fmt::Write;

/// A request's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: String,
    target: String,
    version: String,
    headers: Vec<(String, String)>,
}

/// How long the body of a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    None,
    Exact(u64),
    Chunked,
}

/// What a request does, for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// Creates a container, by Docker's API.
    Create,
    /// Creates a network or a volume, which are labelled and never ended.
    CreateLasting,
    /// Creates a container by Podman's own API.
    CreateLibpod,
    /// Anything else.
    Other,
}

impl Head {
    /// Reads a head, which ends with an empty line.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.split("\r\n");
        let mut first = lines.next()?.splitn(3, ' ');
        let (method, target, version) = (first.next()?, first.next()?, first.next()?);
        let headers = lines.take_while(|line| !line.is_empty()).map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.trim().to_owned()))
        });
        Some(Self {
            method: method.to_owned(),
            target: target.to_owned(),
            version: version.to_owned(),
            headers: headers.collect::<Option<_>>()?,
        })
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Whether one of the elements of a list header is this word.
    pub(super) fn lists(&self, name: &str, word: &str) -> bool {
        let elements = self.get(name).into_iter().flat_map(|v| v.split(','));
        elements
            .map(str::trim)
            .any(|element| element.eq_ignore_ascii_case(word))
    }

    pub(super) fn length(&self) -> Length {
        if self.lists("transfer-encoding", "chunked") {
            return Length::Chunked;
        }
        match self.get("content-length").map(str::parse) {
            Some(Ok(0)) | None => Length::None,
            Some(Ok(n)) => Length::Exact(n),
            // The daemon will say what it thinks of it.
            Some(Err(_)) => Length::None,
        }
    }

    pub(super) fn route(&self) -> Route {
        if self.method != "POST" {
            return Route::Other;
        }
        let path = self.target.split('?').next().unwrap_or_default();
        match without_version(path) {
            "/containers/create" => Route::Create,
            "/networks/create" | "/volumes/create" => Route::CreateLasting,
            "/libpod/containers/create" => Route::CreateLibpod,
            _ => Route::Other,
        }
    }

    /// One request per connection, so that the answer needs no understanding.
    /// A connection that changes its protocol is one anyway.
    pub(super) fn close_after(&mut self) {
        if self.get("upgrade").is_none() {
            self.set("Connection", "close");
        }
    }

    /// The body that follows is this long, and follows at once.
    pub(super) fn set_length(&mut self, length: usize) {
        self.remove("transfer-encoding");
        self.remove("expect");
        self.set("Content-Length", &length.to_string());
    }

    fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    fn remove(&mut self, name: &str) {
        self.headers
            .retain(|(found, _)| !found.eq_ignore_ascii_case(name));
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let Self {
            method,
            target,
            version,
            headers,
        } = self;
        let mut text = format!("{method} {target} {version}\r\n");
        for (name, value) in headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        text.push_str("\r\n");
        text.into_bytes()
    }
}

/// The path without `/v1.41`.
fn without_version(path: &str) -> &str {
    let Some(rest) = path.strip_prefix("/v") else {
        return path;
    };
    match rest.find('/') {
        Some(end) if rest[..end].bytes().all(|b| b.is_ascii_digit() || b == b'.') => &rest[end..],
        _ => path,
    }
}

/// Where a head ends: after its empty line.
pub(super) fn end(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        Head::parse(text.replace('\n', "\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn creates_are_recognised_with_any_version_and_query() {
        let route = |target: &str| head(&format!("POST {target} HTTP/1.1\n\n")).route();
        assert_eq!(route("/v1.41/containers/create?name=x"), Route::Create);
        assert_eq!(route("/volumes/create"), Route::CreateLasting);
        assert_eq!(
            route("/v4.0.0/libpod/containers/create"),
            Route::CreateLibpod
        );
        assert_eq!(route("/v1.41/containers/create/start"), Route::Other);
        assert_eq!(route("/v1.41/containers/abc/start"), Route::Other);
        assert_eq!(route("/volumes/containers/create"), Route::Other);
        assert_eq!(
            head("GET /containers/create HTTP/1.1\n\n").route(),
            Route::Other
        );
    }

    #[test]
    fn an_upgrade_keeps_its_connection_header() {
        let mut plain = head("GET /info HTTP/1.1\nHost: x\nconnection: keep-alive\n\n");
        plain.close_after();
        let text = String::from_utf8(plain.to_bytes()).unwrap();
        assert_eq!(
            text,
            "GET /info HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        );
        let upgrade = "POST /grpc HTTP/1.1\nConnection: Upgrade\nUpgrade: h2c\n\n";
        let mut changed = head(upgrade);
        changed.close_after();
        assert_eq!(changed, head(upgrade));
    }

    #[test]
    fn the_length_of_a_rewritten_body_is_the_only_one() {
        let text = "POST /containers/create HTTP/1.1\nTransfer-Encoding: chunked\nExpect: 100-continue\n\n";
        let mut create = head(text);
        assert_eq!(create.length(), Length::Chunked);
        create.set_length(12);
        assert_eq!(create.length(), Length::Exact(12));
        assert_eq!(create.get("expect"), None);
    }

    #[test]
    fn what_is_no_head_is_refused() {
        assert_eq!(Head::parse(b"nonsense\r\n\r\n"), None);
        assert_eq!(Head::parse(b"GET / HTTP/1.1\r\nno colon\r\n\r\n"), None);
        assert_eq!(end(b"GET / HTTP/1.1\r\n"), None);
        assert_eq!(end(b"a\r\n\r\nbody"), Some(5));
    }
}
