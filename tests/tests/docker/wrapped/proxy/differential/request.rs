//! Requests at random: of all kinds, and written in all ways.

use mcp_lifecycle_conformance::random::Random;

use super::create;
use super::others::{Body, CALLS, archive};

/// A request, ready to be sent.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// The kind of request, in a word.
    pub(super) kind: &'static str,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
    pub(super) framing: Framing,
    pub(super) version: &'static str,
    /// The fault that is done to it, after which its connection is not in order.
    pub(super) fault: Option<Fault>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// No body, and nothing about it.
    None,
    Length,
    /// In chunks of so many bytes.
    Chunked(usize),
}

/// Something wrong with a request as HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    NoHost,
    TwoHosts,
    BareLineFeeds,
    LineFeedInside,
    FoldedHeader,
    SpaceBeforeColon,
    HighByte,
    ControlByte,
    BadHeaderName,
    DifferingLengths,
    SignedLength,
    LengthAndChunks,
    IdentityCoding,
    UnknownCoding,
    BadChunk,
    LongBody,
    ShortBody,
    UnknownVersion,
    EmptyLinesBefore,
    UnknownExpectation,
    SpaceInTarget,
    BadEscape,
    BadMethod,
    ManyHeaders,
    HugeHead,
}

const FAULTS: &[Fault] = &[
    Fault::NoHost,
    Fault::TwoHosts,
    Fault::BareLineFeeds,
    Fault::LineFeedInside,
    Fault::FoldedHeader,
    Fault::SpaceBeforeColon,
    Fault::HighByte,
    Fault::ControlByte,
    Fault::BadHeaderName,
    Fault::DifferingLengths,
    Fault::SignedLength,
    Fault::LengthAndChunks,
    Fault::IdentityCoding,
    Fault::UnknownCoding,
    Fault::BadChunk,
    Fault::LongBody,
    Fault::ShortBody,
    Fault::UnknownVersion,
    Fault::EmptyLinesBefore,
    Fault::UnknownExpectation,
    Fault::SpaceInTarget,
    Fault::BadEscape,
    Fault::BadMethod,
    Fault::ManyHeaders,
    Fault::HugeHead,
];

/// Stands for the id of the container that was created last.
pub(super) const LAST_ID: &str = "@LAST-ID@";

impl Request {
    fn new(kind: &'static str, method: &str, target: String) -> Self {
        Self {
            kind,
            method: method.to_owned(),
            target,
            headers: Vec::new(),
            body: Vec::new(),
            framing: Framing::None,
            version: "HTTP/1.1",
            fault: None,
        }
    }

    fn with(mut self, body: impl Into<Vec<u8>>, content: &str) -> Self {
        self.body = body.into();
        self.framing = Framing::Length;
        self.header("Content-Type", content);
        self
    }

    fn header(&mut self, name: &str, value: impl AsRef<[u8]>) {
        let value = value.as_ref().to_vec();
        self.headers.push((name.to_owned(), value));
    }

    /// At random.
    pub(super) fn random(random: &mut Random) -> Self {
        let mut request = match random.below(100) {
            0..40 => {
                let target = format!("/containers/create{}", create::query(random));
                let mut request =
                    Self::new("create", "POST", target).with(create::body(random), "");
                request.headers.clear();
                let content = *random.pick(create::CONTENT_TYPES);
                if !content.is_empty() {
                    request.header("Content-Type", content);
                }
                request
            }
            40..70 => remove(random),
            _ => other(random),
        };
        spell_target(random, &mut request);
        spell_head(random, &mut request);
        let old = request.version == "HTTP/1.0";
        if request.framing == Framing::Length && !old && random.percent(25) {
            request.framing = Framing::Chunked(1 + random.below(64) as usize);
        }
        if random.percent(4) {
            request.fault = Some(match *random.pick(FAULTS) {
                // What only one of both takes is to change nothing.
                Fault::EmptyLinesBefore | Fault::FoldedHeader | Fault::UnknownVersion
                    if request.method != "GET" =>
                {
                    Fault::NoHost
                }
                // The proxy waits for a client that has closed its side.
                Fault::ShortBody if random.percent(90) => Fault::LongBody,
                fault => fault,
            });
            // Of the old protocol, chunks are a fault of their own.
            request.version = "HTTP/1.1";
            // A connection in disorder is to come to its end.
            request.headers.retain(|(name, _)| name != "Connection");
            request.header("Connection", "close");
        }
        request
    }

    pub(super) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// The bytes that are sent, where the container that was created last is this one.
    pub(super) fn bytes(&self, last_id: &str) -> Vec<u8> {
        let fault = self.fault;
        let target = self.target.replace(LAST_ID, last_id);
        let target = match fault {
            Some(Fault::SpaceInTarget) => format!("{target} x"),
            Some(Fault::BadEscape) => format!("{target}%zz"),
            _ => target,
        };
        let method = match fault {
            Some(Fault::BadMethod) => "PO(ST",
            _ => &self.method,
        };
        let version = match fault {
            Some(Fault::UnknownVersion) => "HTTP/1.2",
            _ => self.version,
        };
        let mut head = Vec::new();
        if fault == Some(Fault::EmptyLinesBefore) {
            head.extend(b"\r\n\r\n");
        }
        head.extend(format!("{method} {target} {version}\r\n").bytes());
        let mut line = |name: &str, value: &[u8]| {
            head.extend(name.bytes());
            head.extend(b": ");
            head.extend(value);
            head.extend(b"\r\n");
        };
        if fault != Some(Fault::NoHost) {
            line("Host", b"docker");
        }
        for (name, value) in &self.headers {
            line(name, value);
        }
        match fault {
            Some(Fault::TwoHosts) => line("Host", b"other"),
            Some(Fault::FoldedHeader) => line("X-Folded", b"a\r\n b"),
            Some(Fault::LineFeedInside) => line("X-Inside", b"y\n\nGET /_ping HTTP/1.1\n"),
            Some(Fault::SpaceBeforeColon) => line("X-Space ", b"y"),
            Some(Fault::HighByte) => line("X-High", b"caf\xe9"),
            Some(Fault::ControlByte) => line("X-Control", b"a\x01b"),
            Some(Fault::BadHeaderName) => line("X(bad)", b"y"),
            Some(Fault::UnknownExpectation) => line("Expect", b"the unexpected"),
            Some(Fault::IdentityCoding) => line("Transfer-Encoding", b"identity"),
            Some(Fault::UnknownCoding) => line("Transfer-Encoding", b"gzip, chunked"),
            Some(Fault::DifferingLengths) => {
                line("Content-Length", b"0");
                line("Content-Length", b"3");
            }
            Some(Fault::SignedLength) => line("Content-Length", b"+2"),
            Some(Fault::LengthAndChunks) => {
                line("Content-Length", b"2");
                line("Transfer-Encoding", b"chunked");
            }
            Some(Fault::ManyHeaders) => {
                for index in 0..300 {
                    line(&format!("X-Many-{index}"), b"y");
                }
            }
            Some(Fault::HugeHead) => line("X-Huge", &vec![b'x'; 2 << 20]),
            _ => {}
        }
        let body = &self.body;
        let whole = match (self.framing, fault) {
            (Framing::None, _) => Vec::new(),
            (_, Some(Fault::LengthAndChunks)) => chunked(body, 16, false),
            (
                _,
                Some(
                    Fault::IdentityCoding
                    | Fault::UnknownCoding
                    | Fault::DifferingLengths
                    | Fault::SignedLength,
                ),
            ) => body.clone(),
            (Framing::Length, _) => {
                let length = match fault {
                    Some(Fault::LongBody) => body.len().saturating_sub(1),
                    Some(Fault::ShortBody) => body.len() + 1,
                    _ => body.len(),
                };
                line("Content-Length", length.to_string().as_bytes());
                body.clone()
            }
            (Framing::Chunked(size), _) => {
                line("Transfer-Encoding", b"chunked");
                chunked(body, size, fault == Some(Fault::BadChunk))
            }
        };
        head.extend(b"\r\n");
        if fault == Some(Fault::BareLineFeeds) {
            head.retain(|byte| *byte != b'\r');
        }
        head.extend(whole);
        head
    }
}

fn chunked(body: &[u8], size: usize, bad: bool) -> Vec<u8> {
    let mut all = Vec::new();
    for part in body.chunks(size.max(1)) {
        all.extend(format!("{:x};ext=1\r\n", part.len()).bytes());
        all.extend(part);
        all.extend(b"\r\n");
    }
    all.extend(if bad {
        &b"zz\r\n\r\n"[..]
    } else {
        b"0\r\nTrailer: x\r\n\r\n"
    });
    all
}

/// One of the few containers there are, or none.
pub(super) fn container(random: &mut Random) -> String {
    match random.below(10) {
        0 => LAST_ID.to_owned(),
        1 => "nobody".to_owned(),
        _ => format!("n{}", random.below(5)),
    }
}

fn remove(random: &mut Random) -> Request {
    let query = random.pick(&[
        "?force=1&v=1",
        "?force=1&v=1",
        "?v=1",
        "",
        "?force=maybe",
        "?link=1",
    ]);
    let target = format!("/containers/{}{query}", container(random));
    Request::new("remove", "DELETE", target)
}

fn other(random: &mut Random) -> Request {
    let (kind, method, target, body) = *random.pick(CALLS);
    let target = target.replace("{c}", &container(random));
    let target = target.replace("{n}", &random.below(5).to_string());
    let mut request = Request::new(kind, method, target);
    if matches!(kind, "attach" | "exec-start") && random.percent(70) {
        request.header("Connection", "Upgrade");
        request.header("Upgrade", "tcp");
    }
    match body {
        Body::None => request,
        Body::Json(body) => request.with(body, "application/json"),
        Body::Archive => request.with(archive(), "application/x-tar"),
    }
}

/// The same place, written in another way.
fn spell_target(random: &mut Random, request: &mut Request) {
    let target = &mut request.target;
    if random.percent(70) {
        let versions = [
            "v1.41", "v1.24", "v1.40", "v1.41.0", "v1.99", "v0.1", "v1.12",
        ];
        let index = if random.percent(85) {
            0
        } else {
            random.below(7)
        };
        *target = format!("/{}{target}", versions[index as usize]);
    }
    if random.percent(8) {
        // Any character of the path, percent-encoded.
        let end = target.find('?').unwrap_or(target.len());
        let at = 1 + random.below(end as u64 - 1) as usize;
        let escape = match random.percent(50) {
            true => format!("%{:02x}", target.as_bytes()[at]),
            false => format!("%{:02X}", target.as_bytes()[at]),
        };
        if !target[..=at].contains('@') {
            target.replace_range(at..=at, &escape);
        }
    }
    match random.below(200) {
        0 | 1 => *target = format!("http://docker{target}"),
        2 => *target = format!("/{target}"),
        3 => *target = format!("/x/..{target}"),
        4 => *target = format!("/.{target}"),
        5 => *target = target.replacen('?', "/?", 1),
        6 if request.method == "GET" => target.push_str("#part"),
        7 => *target = target.to_uppercase(),
        8 => *target = target.replacen('?', ";x?", 1),
        9 => target.push_str("?again=1&&=&%00"),
        10 => target.push('\u{e9}'),
        11 if request.method == "GET" => target.push_str("|^`{}\"<>\\"),
        12 => *target = format!("https://user:pw@docker:1{target}"),
        13 => "*".clone_into(target),
        14 => *target = format!("docker{target}"),
        _ => {}
    }
}

/// The same request with other words around it.
fn spell_head(random: &mut Random, request: &mut Request) {
    if random.percent(6) {
        request.version = "HTTP/1.0";
    }
    for _ in 0..random.below(3) {
        let (name, value): (&str, &[u8]) = *random.pick(&[
            ("User-Agent", &b"Docker-Client/19.03 (linux)"[..]),
            ("Accept", b"application/json, */*"),
            ("Accept-Encoding", b"gzip"),
            ("X-Twice", b"one"),
            ("X-Twice", b"two"),
            ("X-Registry-Auth", b"e30="),
            ("X-Empty", b""),
            ("Connection", b"keep-alive"),
            ("Connection", b"close"),
            ("Connection", b"x-twice, Keep-Alive"),
            ("Keep-Alive", b"timeout=5"),
            ("TE", b"trailers"),
            ("Expect", b"100-continue"),
            ("expect", b"100-Continue"),
            ("If-None-Match", b"*"),
            ("Range", b"bytes=0-1"),
            ("Origin", b"http://evil"),
            ("Cookie", b"a=b"),
            ("Authorization", b"Bearer x"),
        ]);
        request.header(name, value);
    }
    let is_stream = matches!(request.kind, "attach" | "exec-start");
    if random.percent(6) && !is_stream {
        request.headers.retain(|(name, _)| name != "Connection");
        let protocol = *random.pick(&["h2c", "TLS/1.2", "tcp", "websocket"]);
        request.header("Connection", "Upgrade, HTTP2-Settings");
        request.header("Upgrade", protocol);
        request.header("HTTP2-Settings", "AAMAAABkAAQAAP__");
    }
}
