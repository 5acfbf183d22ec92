//! Calls other than creates and removals of containers.

/// The body of a call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    None,
    Json(&'static str),
    Archive,
}

/// A word for it, its method, its target and its body. `{c}` is a container,
/// `{n}` a small number.
pub(super) type Call = (&'static str, &'static str, &'static str, Body);

use Body::{Archive, Json, None};

#[rustfmt::skip]
pub(super) const CALLS: &[Call] = &[
    ("ping", "GET", "/_ping", None),
    ("ping", "HEAD", "/_ping", None),
    ("ping", "POST", "/_ping", None),
    ("ping", "OPTIONS", "/_ping", None),
    ("get", "GET", "/version", None),
    ("get", "GET", "/info", None),
    ("get", "GET", "/containers/json", None),
    ("get", "GET", "/containers/json?all=1&size=1", None),
    ("get", "HEAD", "/containers/json?all=1", None),
    ("get", "GET", "/containers/json?all=1&filters=%7B%22status%22%3A%5B%22created%22%5D%7D", None),
    ("get", "GET", "/containers/json?filters=not-json", None),
    ("get", "GET", "/containers/{c}/json", None),
    ("get", "GET", "/containers/{c}/json?size=1", None),
    ("get", "HEAD", "/containers/{c}/json", None),
    ("get", "GET", "/containers/{c}/logs?stdout=1&stderr=1", None),
    ("get", "GET", "/containers/{c}/logs", None),
    ("get", "GET", "/containers/{c}/changes", None),
    ("get", "GET", "/containers/{c}/export", None),
    ("get", "GET", "/containers/{c}/stats?stream=0", None),
    ("get", "GET", "/containers/{c}/top", None),
    ("get", "GET", "/containers/{c}/archive?path=/bin", None),
    ("get", "HEAD", "/containers/{c}/archive?path=/bin", None),
    ("get", "GET", "/images/json", None),
    ("get", "GET", "/images/mcp-fixture:test/json", None),
    ("get", "HEAD", "/images/mcp-fixture:test/json", None),
    ("get", "GET", "/images/no/such/history", None),
    ("get", "GET", "/volumes", None),
    ("get", "GET", "/networks", None),
    ("get", "GET", "/networks/none", None),
    ("get", "GET", "/events?since=1&until=2", None),
    ("get", "GET", "/no/such/thing", None),
    ("get", "GET", "/containers/create", None),
    ("rename", "POST", "/containers/{c}/rename?name=n{n}", None),
    ("update", "POST", "/containers/{c}/update", Json(r#"{"RestartPolicy":{"Name":"no"}}"#)),
    ("resize", "POST", "/containers/{c}/resize?h=1&w=1", None),
    ("resize", "POST", "/containers/{c}/resize?h=1&w=x", None),
    ("kill", "POST", "/containers/{c}/kill", None),
    ("stop", "POST", "/containers/{c}/stop?t=1", None),
    ("wait", "POST", "/containers/{c}/wait", None),
    ("exec", "POST", "/containers/{c}/exec", Json(r#"{"Cmd":["/x"]}"#)),
    ("exec-start", "POST", "/exec/0123456789ab/start", Json(r#"{"Detach":false}"#)),
    ("attach", "POST", "/containers/{c}/attach?logs=1&stdout=1", None),
    ("attach", "POST", "/containers/{c}/attach?logs=1&stdout=1", None),
    ("volume", "POST", "/volumes/create", Json(r#"{"Name":"v1"}"#)),
    ("volume", "POST", "/volumes/create", Json(r#"{"Name":"v2","Labels":{"a":"b"}}"#)),
    ("volume", "POST", "/volumes/create", Json(r#"{"Name":"v1","Labels":[]}"#)),
    ("volume", "POST", "/volumes/create", Json(r#"{"Name":"/"}"#)),
    ("volume-remove", "DELETE", "/volumes/v{n}", None),
    ("network", "POST", "/networks/create", Json(r#"{"Name":"w1","Driver":"null"}"#)),
    ("network", "POST", "/networks/create", Json(r#"{"Name":"host"}"#)),
    ("network", "POST", "/networks/create", Json(r#"{"Name":1}"#)),
    ("prune", "POST", "/volumes/prune", None),
    ("prune", "POST", "/networks/prune", None),
    ("prune", "POST", "/containers/prune", None),
    ("commit", "POST", "/commit?container={c}&repo=made&tag=t{n}", Json("{}")),
    ("commit", "POST", "/commit?container={c}&repo=made&tag=t{n}", Json(r#"{"Labels":{"a":"b"}}"#)),
    ("commit", "POST", "/commit?container={c}&changes=CMD%20x", Json("null")),
    ("commit", "POST", "/commit?container={c}&changes=NONSENSE", Json("null")),
    ("commit", "POST", "/commit?container={c}&changes=LABEL%20a=b", Json("")),
    ("build", "POST", "/build?q=1", Archive),
    ("put", "PUT", "/containers/{c}/archive?path=/", Archive),
    ("import", "POST", "/images/create?fromSrc=-&repo=imported{n}", Archive),
    ("method", "PATCH", "/containers/{c}/json", None),
    ("method", "PUT", "/containers/create", Json("{}")),
    ("method", "X-OWN", "/_ping", None),
    ("method", "TRACE", "/_ping", None),
    ("method", "create", "/containers/create", None),
];

/// A tar archive of one small file, `Dockerfile`.
pub(super) fn archive() -> Vec<u8> {
    let content = b"FROM scratch\nLABEL made=here\n";
    let mut header = [0_u8; 512];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(0, b"Dockerfile");
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{:011o}\0", content.len()).as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut all = header.to_vec();
    all.extend(content);
    all.resize(2048, 0);
    all
}
