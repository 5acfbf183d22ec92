//! Any bytes on a connection of a wrapped server to its engine, and, after a zero byte, any answer of
//! the engine. The proxy between them forwards one request on each connection, and no create of a
//! container without our labels, as a strict reader of HTTP sees them. It leaves nothing in progress.

#![no_main]
#![allow(dead_code, unused_imports)]

use std::cell::RefCell;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// A parser of what reaches the engine, which knows nothing of the proxy's.
mod strict {
    #[derive(Debug)]
    pub(crate) struct Request {
        pub(crate) method: String,
        pub(crate) target: String,
        pub(crate) headers: Vec<(String, Vec<u8>)>,
        pub(crate) body: Vec<u8>,
        pub(crate) rest: Vec<u8>,
    }

    /// Returns `None` while it is incomplete.
    pub(crate) fn request(bytes: &[u8]) -> Option<Request> {
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n")?;
        let mut lines = bytes[..end].split(|&byte| byte == b'\n');
        let first = str::from_utf8(lines.next()?).expect("its first line is text");
        let words: Vec<_> = first.trim_end_matches('\r').split(' ').collect();
        let &[method, target, "HTTP/1.1"] = &words[..] else {
            panic!("{first:?}");
        };
        let headers = lines.map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            assert!(!line.contains(&b'\r') && !line.contains(&0), "{line:?}");
            let colon = line.iter().position(|&byte| byte == b':').expect("a colon");
            let name = str::from_utf8(&line[..colon]).expect("a name is text");
            assert!(!name.is_empty() && !name.contains([' ', '\t']), "{name:?}");
            (
                name.to_ascii_lowercase(),
                line[colon + 1..].trim_ascii().to_vec(),
            )
        });
        let headers: Vec<_> = headers.collect();
        let of = |name: &str| -> Vec<&[u8]> {
            let found = headers.iter().filter(|(it, _)| it == name);
            found.map(|(_, value)| &**value).collect()
        };
        let body = &bytes[end + 4..];
        let (body, rest) = match (&of("transfer-encoding")[..], &of("content-length")[..]) {
            ([], []) => (Vec::new(), body),
            ([coding], []) => {
                assert!(coding.eq_ignore_ascii_case(b"chunked"), "{coding:?}");
                chunks(body)?
            }
            ([], [length]) => {
                let length = str::from_utf8(length).expect("a length is text");
                assert!(length.bytes().all(|it| it.is_ascii_digit()), "{length:?}");
                let length = length.parse().expect("a length is a number");
                (body.get(..length)?.to_vec(), &body[length..])
            }
            other => panic!("the end of the body is not certain: {other:?}"),
        };
        Some(Request {
            method: method.to_owned(),
            target: target.to_owned(),
            rest: rest.to_vec(),
            headers,
            body,
        })
    }

    fn chunks(mut bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
        let mut body = Vec::new();
        loop {
            let end = bytes.windows(2).position(|it| it == b"\r\n")?;
            let size = str::from_utf8(&bytes[..end]).expect("a size is text");
            let size = usize::from_str_radix(size, 16).expect("a size is a number, alone");
            bytes = &bytes[end + 2..];
            if size == 0 {
                // Trailers, if any, and the empty line.
                let end = match bytes.starts_with(b"\r\n") {
                    true => 2,
                    false => bytes.windows(4).position(|it| it == b"\r\n\r\n")? + 4,
                };
                return Some((body, &bytes[end..]));
            }
            body.extend(bytes.get(..size)?);
            assert_eq!(bytes.get(size..size + 2)?, b"\r\n");
            bytes = &bytes[size + 2..];
        }
    }
}

/// Stand-ins for what the proxy needs of its crate: an engine in this process.
mod container {
    pub(crate) const LATE_CREATE: std::time::Duration = std::time::Duration::from_secs(120);
}

mod control {
    pub(crate) struct Control;

    pub(crate) const CONTROL: Control = Control;

    impl Control {
        pub(crate) fn spawn(
            &self,
            task: impl Future<Output = ()> + Send + 'static,
        ) -> std::io::Result<()> {
            drop(tokio::spawn(task));
            Ok(())
        }
    }
}

mod dial {
    use crate::endpoint::Endpoint;

    pub(crate) type Connection = tokio::io::DuplexStream;

    #[derive(Debug)]
    pub(crate) struct Dial;

    impl Dial {
        pub(crate) fn to(_: &Endpoint) -> std::io::Result<Self> {
            Ok(Self)
        }

        pub(crate) async fn connect(&self) -> std::io::Result<Connection> {
            let (ours, engines) = tokio::io::duplex(64 << 10);
            drop(tokio::spawn(crate::serve(engines)));
            Ok(ours)
        }
    }
}

mod endpoint {
    #[derive(Debug, Clone)]
    pub(crate) struct Endpoint;

    impl std::fmt::Display for Endpoint {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("here")
        }
    }
}

mod engine {
    use crate::endpoint::Endpoint;

    #[derive(Debug)]
    pub(crate) struct Engine {
        pub(crate) endpoint: Endpoint,
    }

    pub(crate) enum State {
        Absent,
    }

    impl Engine {
        pub(crate) async fn state(&self, _: &str) -> Result<State, ()> {
            Ok(State::Absent)
        }
    }

    pub(crate) const fn is_between(status: u16) -> bool {
        matches!(status, 502..=504)
    }
}

mod host {
    use crate::endpoint::Endpoint;

    #[derive(Debug)]
    pub(crate) struct Host;

    impl Host {
        pub(crate) fn cover(&self, _: &Endpoint) {}

        pub(crate) fn is_willed(&self, _: &Endpoint) -> bool {
            true
        }
    }
}

mod labels {
    use std::collections::HashMap;

    #[derive(Debug)]
    pub(crate) struct Mark {
        pub(crate) all: HashMap<String, String>,
    }

    impl Mark {
        pub(crate) fn new() -> Self {
            let launch = ("dev.mcp-lifecycle.I.launch".to_owned(), "L".to_owned());
            Self {
                all: [launch].into(),
            }
        }

        pub(crate) fn with_fate(&self, _: bool) -> HashMap<String, String> {
            self.all.clone()
        }
    }
}

#[path = "../../mcp-launcher-docker/src/wrapper"]
mod wrapper {
    pub(crate) mod proxy;

    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) enum ReapPolicy {
        All,
    }

    impl ReapPolicy {
        pub(crate) fn ends(self, _: bool) -> bool {
            true
        }
    }
}

thread_local! {
    static ANSWER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

const PLAIN: &[u8] =
    b"HTTP/1.1 201 Created\r\nApi-Version: 1.41\r\nContent-Length: 10\r\n\r\n{\"Id\":\"x\"}";

/// The engine: reads one request, judges it, and answers it.
async fn serve(mut stream: DuplexStream) {
    let mut bytes = Vec::new();
    let request = loop {
        if let Some(request) = strict::request(&bytes) {
            break request;
        }
        // A request that is cut off is none.
        match stream.read_buf(&mut bytes).await {
            Ok(1..) => {}
            _ => return,
        }
    };
    judge(&request);
    let answer = ANSWER.with_borrow(Clone::clone);
    let _ = stream.write_all(&answer).await;
    let _ = stream.shutdown().await;
    let is_stream = answer.starts_with(b"HTTP/1.1 101");
    let mut rest = request.rest;
    while stream.read_buf(&mut rest).await.is_ok_and(|read| read > 0) {}
    assert!(is_stream || rest.is_empty(), "a second request: {rest:?}");
}

/// Fails if a request is not as it must be. Paths are read as the daemons' routers read them: in
/// one way, decoded once.
fn judge(request: &strict::Request) {
    let path = request.target.split('?').next().unwrap_or_default();
    let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
    let words: Vec<_> = path.split('/').filter(|it| !it.is_empty()).collect();
    if request.method == "POST" && words.ends_with(&["containers", "create"]) {
        let body = String::from_utf8_lossy(&request.body);
        let ours = "\"dev.mcp-lifecycle.I.launch\":\"L\"";
        assert!(body.contains(ours), "{path}: {body}");
    }
    if request.method == "POST" && words.ends_with(&["commit"]) {
        assert!(
            request.target.contains("dev.mcp-lifecycle.I.launch%3D"),
            "{path}"
        );
    }
    assert_ne!(request.method, "CONNECT");
    for (name, _) in &request.headers {
        assert!(!["keep-alive", "proxy-connection", "http2-settings"].contains(&&**name));
    }
}

async fn exchange(bytes: &[u8]) {
    use wrapper::proxy::{Additions, Proxy};

    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("p");
    let additions = Additions {
        mark: labels::Mark::new(),
        policy: wrapper::ReapPolicy::All,
        sockets: None,
    };
    let engine = engine::Engine {
        endpoint: endpoint::Endpoint,
    }
    .into();
    let proxy = Proxy::start(path.clone(), engine, additions, host::Host).expect("a proxy");
    let client = tokio::net::UnixStream::connect(&path)
        .await
        .expect("it listens");
    let (mut input, mut output) = client.into_split();
    let write = async {
        let _ = output.write_all(bytes).await;
        drop(output);
    };
    let mut answers = Vec::new();
    let (_, read) = tokio::join!(write, input.read_to_end(&mut answers));
    if read.is_ok() && !answers.is_empty() {
        assert!(answers.starts_with(b"HTTP/1."), "{answers:?}");
    }
    proxy.close();
    let long = Duration::from_secs(3600);
    let empty = tokio::time::timeout(long, proxy.fence().empty()).await;
    assert!(empty.is_ok(), "a creation is in progress for ever");
}

fuzz_target!(|bytes: &[u8]| {
    let zero = bytes.iter().position(|&byte| byte == 0);
    let (bytes, answer) = zero.map_or((bytes, PLAIN), |at| (&bytes[..at], &bytes[at + 1..]));
    ANSWER.set(answer.to_vec());
    // Time passes where all wait: no input takes longer than its work.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(exchange(bytes));
});
