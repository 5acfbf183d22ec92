//! The requests that a launcher makes of the API server.

mod connect;
mod credentials;
mod objects;
mod retry;
#[cfg(test)]
pub(crate) mod scripted;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use mcp_lifecycle_core::lock::Lock;

use futures_util::{AsyncBufReadExt, Stream, StreamExt, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::client::Connection;
use kube::core::{PartialObjectMeta, WatchEvent};
use percent_encoding::NON_ALPHANUMERIC;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

use crate::error::{Action, Case, ClusterError, Meaning, Result};
use crate::labels;

pub(crate) use objects::{Deletion, Kind, Listed};
pub(crate) use retry::{Patience, Pauses};
pub(crate) use watch::{Entry, Watcher};

pub(crate) const LATE_CREATE: Duration = Duration::from_secs(75);

/// Time limit of one response. A deletion by a busy server is requested again.
const ANSWER: Duration = Duration::from_secs(30);

/// Objects per page of a list: a page of pods is some 4 MB.
const PAGE: u32 = 500;

/// Restarts of a list after its continue token has expired (5 minutes).
const BEGUN_AGAIN: usize = 3;

#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
    pub(crate) namespace: Option<String>,
}

pub(crate) struct Cluster {
    pub(crate) source: Source,
    connected: OnceCell<Connected>,
    failed: Lock<Option<(Instant, ClusterError)>>,
}

struct Connected {
    client: Client,
    namespace: String,
    address: String,
}

impl Cluster {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source,
            connected: OnceCell::new(),
            failed: Lock::default(),
        }
    }

    pub(crate) async fn namespace(&self) -> Result<&str> {
        Ok(&self.connected().await?.namespace)
    }

    /// Connects, one caller at a time. Callers that waited for an attempt share its failure.
    async fn connected(&self) -> Result<&Connected> {
        let asked = Instant::now();
        let failed = || self.failed.lock();
        let connect = async || {
            let since = |(at, _): &&(Instant, _)| *at >= asked;
            if let Some((_, error)) = failed().as_ref().filter(since) {
                return Err(error.clone());
            }
            connect::connect(&self.source)
                .await
                .inspect_err(|error| *failed() = Some((Instant::now(), error.clone())))
        };
        self.connected.get_or_try_init(connect).await
    }

    /// Creates an object and returns it as the API server stored it. It may hold values of an
    /// environment, so that neither it nor the response is ever logged.
    pub(crate) async fn create<T: DeserializeOwned>(
        &self,
        kind: Kind,
        object: &Value,
    ) -> Result<T> {
        let path = self.path(kind, "").await?;
        let request = with_body(Request::post(path), JSON, object);
        self.object("create", kind.plural(), request).await
    }

    pub(crate) async fn patch<T: DeserializeOwned>(
        &self,
        kind: Kind,
        name: &str,
        fields: &Value,
    ) -> Result<T> {
        let request = Request::patch(self.path(kind, name).await?);
        let request = with_body(request, "application/merge-patch+json", fields);
        self.object("patch", kind.plural(), request).await
    }

    pub(crate) async fn let_go(&self, pod: &str, uid: &str) -> Result<()> {
        let without = json!({"metadata": {
            "uid": uid, "$deleteFromPrimitiveList/finalizers": [labels::FINALIZER],
        }});
        let request = Request::patch(self.path(Kind::Pod, pod).await?);
        let request = with_body(request, "application/strategic-merge-patch+json", &without);
        let patched = self.asked(("patch", "pods"), request, Client::request_text);
        patched.await.map(drop)
    }

    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        kind: Kind,
        selector: &str,
    ) -> Result<Listed<T>> {
        self.list_as(kind, selector, |object| object).await
    }

    /// Lists objects, mapped by `read`: only one page of full objects is in memory.
    pub(crate) async fn list_as<T: DeserializeOwned, U>(
        &self,
        kind: Kind,
        selector: &str,
        read: impl Fn(T) -> U,
    ) -> Result<Listed<U>> {
        let path = self.path(kind, "").await?;
        let mut again = 0;
        let mut items = Vec::new();
        let first = format!("{path}?labelSelector={selector}&limit={PAGE}");
        let mut page = first.clone();
        loop {
            let request = Request::get(&page).body(Vec::new());
            let listed: Result<Listed<T>, _> = self.object("list", kind.plural(), request).await;
            let mut listed = match listed {
                // The continue token has expired: start over.
                Err(error)
                    if error.case == Case::Expired && page != first && again < BEGUN_AGAIN =>
                {
                    again += 1;
                    items.clear();
                    page.clone_from(&first);
                    continue;
                }
                listed => listed?,
            };
            items.extend(listed.items.into_iter().map(&read));
            let rest = listed.metadata.rest.take().filter(|rest| !rest.is_empty());
            let Some(rest) = rest else {
                let metadata = listed.metadata;
                return Ok(Listed { metadata, items });
            };
            let rest = percent_encoding::utf8_percent_encode(&rest, NON_ALPHANUMERIC);
            page = format!("{first}&continue={rest}");
        }
    }

    pub(crate) async fn events(
        &self,
        uid: &str,
    ) -> Result<impl Stream<Item = Result<Event, ClusterError>> + use<'_>> {
        let query = format!("watch=true&fieldSelector=involvedObject.uid={uid}");
        let told = self.watch(Kind::Event, &query).await?;
        Ok(told.try_filter_map(|event| {
            std::future::ready(Ok(match event {
                WatchEvent::Added(event) | WatchEvent::Modified(event) => Some(event),
                _ => None,
            }))
        }))
    }

    async fn watch<T: DeserializeOwned>(
        &self,
        kind: Kind,
        query: &str,
    ) -> Result<impl Stream<Item = Result<WatchEvent<T>, ClusterError>> + use<'_, T>> {
        let path = self.path(kind, "").await?;
        let request = Request::get(format!("{path}?{query}")).body(Vec::new());
        let what = ("watch", kind.plural());
        let (answer, action) = self.asked(what, request, Client::request_stream).await?;
        Ok(answer.lines().map(move |line| {
            let line = line.map_err(|error| action.unreachable(error.to_string()))?;
            serde_json::from_str(&line).map_err(|error| action.unreachable(error.to_string()))
        }))
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, kind: Kind, name: &str) -> Result<T> {
        let request = Request::get(self.path(kind, name).await?).body(Vec::new());
        self.object("get", kind.plural(), request).await
    }

    /// Returns whether the object is gone or another one has its name. A 409 alone proves neither:
    /// others may have changed it at the same instant.
    pub(crate) async fn has_gone(&self, kind: Kind, name: &str, uid: &str) -> bool {
        match self.get::<PartialObjectMeta>(kind, name).await {
            Ok(there) => there.metadata.uid.is_some_and(|there| there != uid),
            Err(error) => error.meaning == Meaning::Absent,
        }
    }

    /// Requests a deletion. An object that is gone or replaced is `Absent` or `Conflict` of
    /// [`Meaning`](crate::error::Meaning).
    pub(crate) async fn delete(&self, kind: Kind, what: Deletion<'_>) -> Result<()> {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(uid) = what.uid {
            options["preconditions"]["uid"] = uid.into();
        }
        if let Some(version) = what.version {
            options["preconditions"]["resourceVersion"] = version.into();
        }
        if let Some(grace) = what.grace {
            options["gracePeriodSeconds"] = grace.into();
        }
        let request = Request::delete(self.path(kind, what.name).await?);
        let request = with_body(request, JSON, &options);
        let deleted = self.asked(("delete", kind.plural()), request, Client::request_text);
        deleted.await.map(drop)
    }

    /// Attaches to all three streams of a container. The API attaches by name only.
    pub(crate) async fn attach(&self, pod: &str, container: &str) -> Result<Connection> {
        let query = format!("container={container}&stdin=true&stdout=true&stderr=true");
        let path = self.path(Kind::Pod, pod).await?;
        let request = Request::get(format!("{path}/attach?{query}")).body(Vec::new());
        // From Kubernetes 1.35 on, attach needs `create` as well.
        let attached = self.asked(("get", "pods/attach"), request, Client::connect);
        Ok(attached.await?.0)
    }

    async fn path(&self, kind: Kind, name: &str) -> Result<String> {
        let namespace = self.namespace().await?;
        let slash = if name.is_empty() { "" } else { "/" };
        let plural = kind.plural();
        let api = kind.api();
        Ok(format!(
            "{api}/namespaces/{namespace}/{plural}{slash}{name}"
        ))
    }

    async fn object<T: DeserializeOwned>(
        &self,
        verb: &'static str,
        resource: &'static str,
        request: http::Result<Request<Vec<u8>>>,
    ) -> Result<T> {
        let what = (verb, resource);
        let (text, action) = self.asked(what, request, Client::request_text).await?;
        // The client library would log what it cannot parse.
        serde_json::from_str(&text).map_err(|error| action.unreachable(error.to_string()))
    }

    /// Sends a request. Its answer, or the beginning of a stream, has to come in time.
    async fn asked<'a, T, A: Future<Output = kube::Result<T>>>(
        &'a self,
        (verb, resource): (&'static str, &'static str),
        request: http::Result<Request<Vec<u8>>>,
        ask: impl FnOnce(&'a Client, Request<Vec<u8>>) -> A,
    ) -> Result<(T, Action<'a>)> {
        let connected = self.connected().await?;
        let action = connected.action(verb, resource);
        let request = request.map_err(|error| action.failed(kube::Error::HttpError(error)))?;
        let answer = timeout(ANSWER, ask(&connected.client, request)).await;
        let late = |_| action.unreachable(format!("nothing came for {} s", ANSWER.as_secs()));
        let answer = answer.map_err(late)?;
        Ok((answer.map_err(|error| action.failed(error))?, action))
    }
}

impl Connected {
    fn action(&self, verb: &'static str, resource: &'static str) -> Action<'_> {
        Action {
            verb,
            resource,
            namespace: &self.namespace,
            address: &self.address,
        }
    }
}

const JSON: &str = "application/json";

fn with_body(
    request: http::request::Builder,
    kind: &str,
    body: &Value,
) -> http::Result<Request<Vec<u8>>> {
    let request = request.header("Content-Type", kind);
    request.body(body.to_string().into_bytes())
}

mcp_lifecycle_core::debug_fields! { Cluster, it { source: &it.source } }
