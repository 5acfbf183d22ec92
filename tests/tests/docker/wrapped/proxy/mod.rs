//! The proxy between a server and the engine, spoken to byte by byte.

mod attached;
mod creates;
mod differential;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::{Owned, Rig, in_time, own};

/// A server that does nothing, and the socket that it was given as its engine.
pub(super) struct Tracked {
    pub(super) server: Owned,
    pub(super) socket: PathBuf,
}

impl Tracked {
    pub(super) async fn launch(rig: &Rig, tracker: &impl ServerLauncher) -> Self {
        let script = r#"echo "$DOCKER_HOST"; exec sleep infinity"#;
        let spec = rig.wrapped("sh", &["-c", script]);
        let mut server = own(tracker.launch(&spec, &LaunchContext::new()).await.unwrap());
        let mut line = String::new();
        let stdout = std::mem::replace(&mut server.stdout, Box::new(tokio::io::empty()));
        let mut stdout = BufReader::new(stdout);
        in_time("it says where", stdout.read_line(&mut line))
            .await
            .unwrap();
        let socket = line.trim().strip_prefix("unix://").unwrap().into();
        Self { server, socket }
    }
}

/// Sends these bytes, and returns the answer, read until the end or for so long.
pub(super) fn exchange(socket: &std::path::Path, bytes: &[u8], limit: Duration) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(limit)).unwrap();
    // A peer that refuses a request need not have read all of it.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// The status of an answer; 0 where there is none.
pub(super) fn status(answer: &[u8]) -> u16 {
    let head = answer.get(..12).unwrap_or_default();
    let text = std::str::from_utf8(head).unwrap_or_default();
    text.split(' ')
        .nth(1)
        .and_then(|s| s.parse().ok())
        .unwrap_or(0)
}
