//! Many containers of one server, each with an attached client.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mcp_lifecycle_core::terminate::EndReason;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::super::policy;
use super::creates::post;
use super::{Tracked, exchange, status};
use crate::support::{Engine, Rig};

const ATTACHED: usize = 200;

/// Those that are started: what is attached and what waits is the same without.
const STARTED: usize = 10;

/// The reason that a container has ended.
const STATE: &str =
    "{{.State.Status}}, {{.State.ExitCode}}, out of memory: {{.State.OOMKilled}}, {{.State.Error}}";

/// Far longer than the engine takes for one request here, and for the end of all.
const ANSWER: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(180);

/// Sends a request, and returns the stream once its answer has begun with this status.
fn begin(socket: &std::path::Path, request: &[u8], expected: u16) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(ANSWER)).unwrap();
    stream.write_all(request).unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(status(&start), expected);
    stream
}

/// The body of a create. The engine keeps the container when its program ends: one that is
/// not listed was removed by a request, and one that has ended can be asked for the reason.
fn create(rig: &Rig) -> Vec<u8> {
    let body = serde_json::json!({
        "Image": "mcp-fixture:test", "Cmd": ["/mcp-fixture", "ignore-eof-term"],
        "OpenStdin": true, "AttachStdin": true, "StdinOnce": true,
        "HostConfig": {"NetworkMode": "none"}, "Labels": {"test": rig.server},
    });
    let close = "Connection: close\r\n";
    post("/containers/create", close, body.to_string().as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn attached_clients_keep_nothing_else_from_the_engine() {
    let Some(rig) = Rig::new("attached") else {
        return;
    };
    // Each connection has both ends here, and the proxy's own.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(16 * 1024), hard).unwrap();
    let tracker = rig.tracker();
    let tracked = Tracked::launch(&rig, &tracker).await;
    let socket = &tracked.socket;
    let (mut held, mut created) = (Vec::new(), Vec::new());
    for n in 0..ATTACHED {
        let answer = exchange(socket, &create(&rig), ANSWER);
        assert_eq!(status(&answer), 201, "{n}");
        let text = String::from_utf8(answer).unwrap();
        let (_, id) = text.split_once(r#""Id":""#).unwrap();
        let id = &id[..64];
        let upgrade = "Connection: Upgrade\r\nUpgrade: tcp\r\n";
        let attach = format!("/containers/{id}/attach?stream=1&stdin=1&stdout=1&stderr=1");
        held.push(begin(socket, &post(&attach, upgrade, b""), 101));
        let wait = format!("/containers/{id}/wait?condition=removed");
        held.push(begin(socket, &post(&wait, "", b""), 200));
        // One that its client keeps for later.
        held.push(begin(
            socket,
            b"GET /_ping HTTP/1.1\r\nHost: d\r\n\r\n",
            200,
        ));
        if n < STARTED {
            let start = format!("/containers/{id}/start");
            let answer = exchange(socket, &post(&start, "Connection: close\r\n", b""), ANSWER);
            assert_eq!(status(&answer), 204, "{n}");
        }
        created.push(id.to_owned());
    }
    let through = Engine {
        host: format!("unix://{}", socket.display()),
    };
    let listed = through.by_label(&format!("test={}", rig.server));
    for (n, id) in created.iter().enumerate() {
        assert!(listed.contains(id), "container {n} was removed: {id}");
    }
    for id in &created[..STARTED] {
        let state = rig.engine.docker(&["inspect", "--format", STATE, id]);
        let is_running = state.starts_with("running");
        assert!(is_running, "{id}: {state}\n{}", rig.engine.events(id));
    }
    let policy = policy().kill_confirmation(END);
    let end = tracked
        .server
        .handle
        .terminate(&policy, EndReason::Shutdown);
    let report = tokio::time::timeout(END, end).await.unwrap().unwrap();
    assert_eq!(rig.started(), Vec::<String>::new(), "{report}");
    drop(held);
}
