//! An API server that answers as a test says: real HTTP over loopback, and nothing behind it.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;

use super::{Cluster, Source};

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The method and the path: `GET /api/v1/namespaces/default/pods`.
    pub(crate) what: String,
    pub(crate) query: String,
    pub(crate) body: Value,
    pub(crate) authorization: Option<String>,
}

/// Code and body of an answer; a string is sent as it is.
pub(crate) type Answer = (u16, Value);

/// The server, as long as the runtime of its test.
pub(crate) struct Api {
    address: String,
    kubeconfig: NamedTempFile,
}

impl Api {
    /// Answers each request with what `answer` makes of it.
    pub(crate) async fn start<F>(answer: impl Fn(Asked) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let answer = Arc::clone(&answer);
                let serve = service_fn(move |request| {
                    let answer = Arc::clone(&answer);
                    async move {
                        let (code, body) = answer(read(request).await).await;
                        let body = match body {
                            Value::String(text) => text,
                            other => other.to_string(),
                        };
                        let body = Full::new(Bytes::from(body));
                        let head = Response::builder().status(code);
                        Ok::<_, Infallible>(head.body(body).unwrap())
                    }
                });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(connection), serve));
            }
        });
        let api = Self {
            kubeconfig: NamedTempFile::new().unwrap(),
            address,
        };
        api.user(&json!({}));
        api
    }

    /// Says who its user is, as a kubeconfig does.
    pub(crate) fn user(&self, user: &Value) {
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": self.address}}],
            "users": [{"name": "u", "user": user}]});
        std::fs::write(self.kubeconfig.path(), config.to_string()).unwrap();
    }

    /// The kubeconfig that names it.
    pub(crate) fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// A client of it.
    pub(crate) fn cluster(&self) -> Arc<Cluster> {
        Arc::new(Cluster::new(Source {
            kubeconfig: Some(self.kubeconfig().to_owned()),
            context: None,
            namespace: Some("default".to_owned()),
        }))
    }
}

async fn read(request: Request<Incoming>) -> Asked {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let authorization = head.headers.get("authorization");
    Asked {
        what: format!("{} {}", head.method, head.uri.path()),
        query: head.uri.query().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
        authorization: authorization.map(|value| value.to_str().unwrap().to_owned()),
    }
}

/// A refusal.
pub(crate) fn refused(code: u16, reason: &str, message: &str) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code});
    (code, status)
}
