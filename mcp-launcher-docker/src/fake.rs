//! An engine of a unit test's own, that answers what it is told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::endpoint::Endpoint;

/// Runs a future, for far longer than anything here takes at the most.
pub(crate) fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_secs(40), future).await };
    runtime.block_on(bounded).expect(what)
}

/// Answer of the engine: a status and a body; `None` ends the connection.
pub(crate) type Answer = Option<(u16, String)>;

pub(crate) struct FakeEngine {
    directory: tempfile::TempDir,
}

impl FakeEngine {
    /// Listens. `answer` is given the first line of each request, but for the
    /// questions who it is, and may block.
    pub(crate) fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_as(|| Some((200, r#"{"ID":"fake"}"#.to_owned())), answer)
    }

    /// The same; `who` is what it answers to `/info`.
    pub(crate) fn start_as(
        who: impl Fn() -> Answer + Send + Sync + 'static,
        answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let answer = move |request: &str| match request {
            request if request.contains("/version") => {
                Some((200, r#"{"ApiVersion":"1.41"}"#.to_owned()))
            }
            request if request.contains("/info") => who(),
            request => answer(request),
        };
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("s")).unwrap();
        let answer = Arc::new(answer);
        // Ends with the test process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || serve(client, &*answer));
            }
        });
        Self { directory }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::Unix(self.socket())
    }
}

fn serve(client: UnixStream, answer: &impl Fn(&str) -> Answer) {
    let mut writer = client.try_clone().unwrap();
    let mut reader = BufReader::new(client);
    let mut first = String::new();
    if reader.read_line(&mut first).unwrap_or(0) == 0 {
        return;
    }
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(n) = line.strip_prefix("content-length:") {
            length = n.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let first = first.trim();
    if let Some((status, body)) = answer(first) {
        let length = body.len();
        let _ = write!(
            writer,
            "HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
    }
}
