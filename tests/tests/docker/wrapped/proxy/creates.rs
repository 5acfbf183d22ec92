//! Every way to write a create: labelled, or refused. Never let through as it is.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mcp_launcher_docker::ReapPolicy;

use super::super::policy;
use super::{Tracked, exchange, status};
use crate::support::{LIMIT, Rig};

/// Longer than any create takes here; shorter than a test.
const ANSWER: Duration = Duration::from_secs(10);

/// The body of a create with something more in it.
pub(super) fn body(rig: &Rig, more: &str) -> Vec<u8> {
    let mut body = format!(
        r#"{{"Image":"mcp-fixture:test","Cmd":["/mcp-fixture","ignore-eof-term"],"HostConfig":{{"NetworkMode":"none","AutoRemove":true}},"Labels":{{"test":"{}"}}"#,
        rig.server
    );
    body.push_str(more);
    body.push('}');
    body.into_bytes()
}

pub(super) fn post(target: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body.to_vec()].concat()
}

/// A name, and the bytes of the requests.
fn cases(rig: &Rig) -> Vec<(&'static str, Vec<u8>)> {
    let plain = || body(rig, "");
    let close = "Connection: close\r\n";
    let create = |headers: &str, body: &[u8]| post("/v1.41/containers/create", headers, body);
    let upgrade = |what: &str| format!("Connection: Upgrade\r\nUpgrade: {what}\r\n");
    let kept = |what: &str| {
        let ping = format!("GET /_ping HTTP/1.1\r\nHost: d\r\n{}\r\n", upgrade(what));
        [ping.into_bytes(), create(close, &plain())].concat()
    };
    let raw = |more: &[u8]| {
        let mut all = body(rig, "");
        all.pop();
        all.extend_from_slice(more);
        all
    };
    let deep = format!(r#","Unknown":{}{}"#, "[".repeat(200), "]".repeat(200));
    let smuggled = format!(
        "GET /_ping HTTP/1.1\r\nHost: d\r\nX: y\n\n{}",
        String::from_utf8(create(close, &plain())).unwrap()
    );
    let chunked = {
        let head = "POST /containers/create HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut all = head.as_bytes().to_vec();
        for part in plain().chunks(7) {
            all.extend(format!("{:x};ext=1\r\n", part.len()).bytes());
            all.extend(part);
            all.extend(b"\r\n");
        }
        all.extend(b"0\r\nTrailer: x\r\n\r\n");
        all
    };
    vec![
        ("plain", create(close, &plain())),
        ("keep-alive", create("", &plain())),
        ("chunked", chunked),
        (
            "expect",
            create("Expect: 100-continue\r\nConnection: close\r\n", &plain()),
        ),
        ("create-upgrade-h2c", create(&upgrade("h2c"), &plain())),
        ("create-upgrade-tls", create(&upgrade("TLS/1.2"), &plain())),
        ("create-upgrade-tcp", create(&upgrade("tcp"), &plain())),
        ("kept-after-tls", kept("TLS/1.2")),
        ("kept-after-h2c", kept("h2c")),
        ("kept-after-tcp", kept("tcp")),
        (
            "surrogate",
            create(close, &body(rig, r#","Env":["X=caf\udce9"]"#)),
        ),
        (
            "surrogate-key",
            create(close, &body(rig, r#","X\udce9":1"#)),
        ),
        (
            "bad-utf8",
            create(close, &raw(b",\"Env\":[\"X=caf\xe9\"]}")),
        ),
        ("trailing", create(close, &raw(b"} garbage"))),
        ("trailing-nul", create(close, &raw(b"}\0"))),
        ("deep", create(close, &body(rig, &deep))),
        ("bignum", create(close, &body(rig, r#","Unknown":1e400"#))),
        (
            "long-s",
            create(
                close,
                &body(
                    rig,
                    r#","Label\u017f":{"dev.mcp-lifecycle.launch":"x","dev.mcp-lifecycle.on-end":"keep"}"#,
                ),
            ),
        ),
        (
            "folded",
            create(
                close,
                &body(rig, r#","LABELS":{"dev.mcp-lifecycle.launch":"x"}"#),
            ),
        ),
        (
            "twice",
            create(
                close,
                &body(rig, r#","Labels":{"dev.mcp-lifecycle.launch":"x"}"#),
            ),
        ),
        (
            "null-after",
            create(
                close,
                &body(
                    rig,
                    &format!(r#","Labels":null,"labels":{{"test":"{}"}}"#, rig.server),
                ),
            ),
        ),
        ("percent", post("/containers/%63reate", close, &plain())),
        (
            "percent-version",
            post("/v1.41/%63ontainers/create", close, &plain()),
        ),
        (
            "percent-slash",
            post("/v1.41%2fcontainers/create", close, &plain()),
        ),
        (
            "absolute",
            post("http://docker/v1.41/containers/create", close, &plain()),
        ),
        ("double-slash", post("//containers/create", close, &plain())),
        ("dots", post("/x/../containers/create", close, &plain())),
        ("bare-lf", smuggled.into_bytes()),
        (
            "http-1.0",
            String::from_utf8(create("", &plain()))
                .unwrap()
                .replace("HTTP/1.1", "HTTP/1.0")
                .into_bytes(),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_create_is_labelled_or_refused() {
    let Some(rig) = Rig::new("creates") else {
        return;
    };
    let tracker = rig.tracker().reap(ReapPolicy::All);
    let tracked = Tracked::launch(&rig, &tracker).await;
    for (name, bytes) in cases(&rig) {
        let before = rig.started();
        let limit = match name {
            // No end of the connection is to be waited for.
            "keep-alive" | "create-upgrade-h2c" | "create-upgrade-tls" | "create-upgrade-tcp"
            | "bare-lf" => Duration::from_secs(2),
            _ => ANSWER,
        };
        let answer = exchange(&tracked.socket, &bytes, limit);
        let text = String::from_utf8_lossy(&answer);
        assert_ne!(status(&answer), 0, "{name}: no answer: {text:?}");
        let new: Vec<_> = rig
            .started()
            .into_iter()
            .filter(|id| !before.contains(id))
            .collect();
        println!("{name}: {} and {} created", status(&answer), new.len());
        for id in &new {
            let fate = rig.engine.field(id, "on-end");
            assert_eq!(fate, ["end"], "{name}: created without labels: {text}");
        }
    }
    let report = tracked.server.end(&policy()).await.unwrap();
    let left = rig.started();
    assert!(left.is_empty(), "left: {left:?} {report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_with_an_upgrade_holds_up_nothing() {
    let Some(rig) = Rig::new("upgrade") else {
        return;
    };
    let tracker = rig.tracker().reap(ReapPolicy::All);
    let tracked = Tracked::launch(&rig, &tracker).await;
    let mut stream = UnixStream::connect(&tracked.socket).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let headers =
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    let request = post("/containers/create", headers, &body(&rig, ""));
    stream.write_all(&request).unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(status(&start), 201);
    // The connection stays open, as the client left it.
    let report = tracked.server.end(&policy()).await.unwrap();
    assert_eq!(report.gone.swept.len(), 1, "{report}");
    assert!(rig.started().is_empty());
}

/// The engine refuses it by its head. What it is told of the connection is what the client
/// said: or it would wait for a body that does not come.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_refused_before_its_body_has_come_is_answered() {
    let Some(rig) = Rig::new("refused-stream") else {
        return;
    };
    let tracker = rig.tracker();
    let tracked = Tracked::launch(&rig, &tracker).await;
    let request = "POST /x/../v1.41/containers/none/attach?logs=1 HTTP/1.1\r\nHost: d\r\n\
        Upgrade: tcp\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let engine = rig.engine.host.trim_start_matches("unix://");
    let straight = exchange(engine.as_ref(), request.as_bytes(), ANSWER);
    let proxied = exchange(&tracked.socket, request.as_bytes(), ANSWER);
    assert_eq!((status(&straight), status(&proxied)), (301, 301));
    tracked.server.end(&policy()).await.unwrap();
}
