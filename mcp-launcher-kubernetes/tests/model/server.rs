//! A model of an API server with its kubelets: real HTTP and real WebSockets, no containers.
//!
//! It has what the launcher asks for, and counts it. A server in it is `cat` that says goodbye
//! at the end of its input, behind the gate of the supervised init.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::pods::Store;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Serves until the process is killed; `protocol` is the newest that it speaks.
pub(crate) async fn serve(protocol: &'static str) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listening on {}", listener.local_addr().unwrap());
    let store = Store::default();
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        let store = store.clone();
        let answer = service_fn(move |request| {
            let store = store.clone();
            async move { Ok::<_, Infallible>(answer(store, request, protocol).await) }
        });
        tokio::spawn(async move {
            let http = hyper::server::conn::http1::Builder::new();
            let served = http.serve_connection(TokioIo::new(connection), answer);
            let _ = served.with_upgrades().await;
        });
    }
}

fn whole(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    let answer = Response::builder().status(code);
    let answer = answer.header("Content-Type", "application/json");
    answer.body(Full::new(text.into()).boxed_unsync()).unwrap()
}

fn refused(code: u16, reason: &str) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason, "code": code});
    whole(code, status.to_string())
}

fn found(object: Option<Value>) -> Response<Body> {
    object.map_or_else(
        || refused(404, "NotFound"),
        |object| whole(200, object.to_string()),
    )
}

async fn answer(
    store: Store,
    request: Request<Incoming>,
    protocol: &'static str,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    if path == "/counts" {
        return whole(200, serde_json::to_string(&store.counts()).unwrap());
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name));
    if path == "/fault" {
        let number = |name| value(name).unwrap().parse::<u32>().unwrap();
        let request = value("request=").unwrap().replace('+', " ");
        store.break_down(&request, number("code=") as u16, number("times="));
        return whole(200, "{}");
    }
    let rest = path
        .split("/namespaces/default/")
        .nth(1)
        .unwrap_or_default();
    let mut words = rest.split('/');
    let mut next = || words.next().unwrap_or_default().to_owned();
    let (kind, name, what) = (next(), next(), next());
    let watches = query.contains("watch=true");
    let verb = match request.method().as_str() {
        "GET" if watches => "watch",
        "GET" if query.contains("&continue=") => "continue",
        "GET" if name.is_empty() => "list",
        "GET" => "get",
        "POST" => "create",
        "PATCH" => "patch",
        _ => "delete",
    };
    let slash = if what.is_empty() { "" } else { "/" };
    let asked = format!("{verb} {kind}{slash}{what}");
    if let Some(code) = store.fault(&asked) {
        store.count(format!("{asked} {code}"));
        return refused(code, "Refused");
    }
    store.count(asked);
    if what == "attach" {
        if store.fault("answer attach").is_some() {
            return std::future::pending().await;
        }
        return attach(store, request, name, protocol);
    }
    let selector = value("labelSelector=").unwrap_or_default().to_owned();
    let sent = async || {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&body).unwrap_or_default()
    };
    match verb {
        // Of what a model's kubelet does this alone is told, where a test asks for it.
        "watch" if kind == "events" => {
            let started = store.fault("tell started").map(|_| started());
            let told = futures_util::stream::iter(started).map(Ok::<_, Infallible>);
            let told = told.chain(futures_util::stream::pending());
            Response::new(StreamBody::new(told).boxed_unsync())
        }
        "watch" => {
            let version = value("resourceVersion=").unwrap_or_default();
            let Some(lines) = store.watch(selector, version.parse().unwrap()) else {
                return refused(410, "Expired");
            };
            let lines = futures_util::stream::unfold(lines, async |mut lines| {
                let line = lines.recv().await?;
                Some((Ok::<_, Infallible>(Frame::data(line)), lines))
            });
            Response::new(StreamBody::new(lines).boxed_unsync())
        }
        "list" | "continue" => {
            let limit = value("limit=").map_or(usize::MAX, |limit| limit.parse().unwrap());
            let after = value("continue=").unwrap_or_default().replace("%2D", "-");
            whole(200, store.list(&kind, &selector, limit, &after))
        }
        "get" => found(store.get(&kind, &name)),
        "create" => match store.create(&kind, sent().await) {
            Some(object) => {
                if kind == "pods" {
                    tokio::spawn(start(
                        store,
                        object["metadata"]["name"].as_str().unwrap().to_owned(),
                    ));
                }
                whole(201, object.to_string())
            }
            None => refused(409, "AlreadyExists"),
        },
        "patch" if kind == "pods" => found(store.let_go(&name)),
        "patch" => found(store.change(&kind, &name, |_| {})),
        _ if kind == "pods" => {
            let grace = sent().await["gracePeriodSeconds"].as_u64();
            if grace == Some(0) {
                return found(store.delete(&kind, &name));
            }
            let changed = store.change(&kind, &name, |pod| {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            });
            let ending = store.clone();
            tokio::spawn(async move {
                // One that tells of the end and of the deletion at once.
                match store.fault("say end") {
                    Some(_) => ending.delete_with("pods", &name, end_of),
                    None => {
                        terminated(&ending, &name);
                        ending.delete("pods", &name)
                    }
                }
            });
            found(changed)
        }
        _ => found(store.delete(&kind, &name)),
    }
}

fn status(state: Value) -> Value {
    json!([{"name": "server", "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "containerID": "containerd://c", "state": state}])
}

/// What the scheduler and a kubelet tell of a pod that starts.
async fn start(store: Store, name: String) {
    let tell = |change: fn(&mut Value)| store.change("pods", &name, change);
    tell(|pod| pod["spec"]["nodeName"] = "node".into());
    // A kubelet that is slow to say anything.
    if store.fault("say status").is_some() {
        return;
    }
    tell(|pod| {
        pod["status"]["phase"] = "Pending".into();
        pod["status"]["containerStatuses"] =
            status(json!({"waiting": {"reason": "ContainerCreating"}}));
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    tell(|pod| {
        pod["status"]["phase"] = "Running".into();
        pod["status"]["containerStatuses"] = status(json!({"running": {}}));
    });
}

fn terminated(store: &Store, name: &str) {
    store.change("pods", name, end_of);
}

fn end_of(pod: &mut Value) {
    pod["status"]["phase"] = "Succeeded".into();
    pod["status"]["containerStatuses"] = status(json!({"terminated": {"exitCode": 0}}));
}

/// The event that a kubelet tells as soon as it has started the server.
fn started() -> Frame<Bytes> {
    let event = json!({"type": "ADDED", "object": {
        "metadata": {"name": "e", "uid": "e"}, "reason": "Started", "message": "Started container server",
        "involvedObject": {"kind": "Pod", "fieldPath": "spec.containers{server}"}}});
    Frame::data(Bytes::from(format!("{event}\n")))
}

fn attach(
    store: Store,
    mut request: Request<Incoming>,
    name: String,
    protocol: &'static str,
) -> Response<Body> {
    let header = |name: &str| request.headers().get(name).cloned();
    let key = header("sec-websocket-key").unwrap();
    let answer = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Accept", derive_accept_key(key.as_bytes()))
        .header("Sec-WebSocket-Protocol", protocol);
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let io = TokioIo::new(upgraded.await.unwrap());
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
        let pod = store.get("pods", &name).unwrap_or_default();
        let is_gated = pod["spec"]["containers"][0]["command"]
            .to_string()
            .contains("--gate");
        server(socket, &store, is_gated).await;
        terminated(&store, &name);
    });
    answer.body(Full::default().boxed_unsync()).unwrap()
}

/// A `cat`, with a gate or without one, until its input ends.
async fn server<S>(mut socket: WebSocketStream<S>, store: &Store, is_gated: bool)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut is_open = !is_gated;
    let mut say = Vec::<Vec<u8>>::new();
    if store.fault("attach to it").is_some() {
        let status = json!({"metadata": {}, "status": "Failure", "reason": "InternalError",
            "message": "error attaching to container: it is not there"});
        let _ = socket
            .send(Message::binary(format!("\x03{status}").into_bytes()))
            .await;
        let _ = socket.close(None).await;
        return;
    }
    if is_open {
        let _ = socket.send(Message::binary(b"\x01ready\n".to_vec())).await;
    }
    while let Some(Ok(message)) = socket.next().await {
        if message.is_ping() {
            store.count_ping();
        }
        match &*message.into_data() {
            // Version 5 alone has this.
            [255, 0] => {
                say.push(b"\x01goodbye\n".to_vec());
                say.push(b"\x03{\"status\":\"Success\"}".to_vec());
                for words in say.drain(..) {
                    let _ = socket.send(Message::binary(words)).await;
                }
                let _ = socket.close(None).await;
                return;
            }
            [0, b'?'] if !is_open => say.extend([vec![1, 6], vec![2, 6]]),
            [0, b'!'] if !is_open => {
                is_open = true;
                say.extend([b"\x01\x02ready\n".to_vec(), vec![2, 2]]);
            }
            [0, data @ ..] if !data.is_empty() => say.push([&[1], data].concat()),
            _ => {}
        }
        for words in say.drain(..) {
            if socket.send(Message::binary(words)).await.is_err() {
                return;
            }
        }
    }
}
