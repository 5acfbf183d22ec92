//! The API server: the few requests that a launcher makes of it.

mod connect;
mod credentials;
mod objects;
mod retry;
#[cfg(test)]
pub(crate) mod scripted;
mod watch;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

use crate::error::{Action, ClusterError, Meaning};
use crate::labels;

pub(crate) use credentials::NoCredentials;
pub(crate) use objects::{Deletion, Kind, Listed};
pub(crate) use retry::{Patience, Pauses};
pub(crate) use watch::{Entry, Watcher};

/// The longest time that an answer may take. A deletion by a busy server is asked again.
const ANSWER: Duration = Duration::from_secs(30);

/// So many objects are asked for at a time: a page of pods is some 4 MB.
const PAGE: u32 = 500;

/// How often a list is begun again whose pages were forgotten, as they are after 5 minutes.
const BEGUN_AGAIN: usize = 3;

/// Source of the cluster's address and credentials.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    /// A kubeconfig, instead of `KUBECONFIG`, `~/.kube/config` or the pod's own account.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// A context in it, instead of its current one.
    pub(crate) context: Option<String>,
    /// A namespace, instead of that of the context or of the pod.
    pub(crate) namespace: Option<String>,
}

/// A cluster, which is connected to with the first request.
pub(crate) struct Cluster {
    source: Source,
    connected: OnceCell<Connected>,
    /// When it could not be connected to, the last time, and why.
    failed: Mutex<Option<(Instant, Arc<ClusterError>)>>,
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
            failed: Mutex::default(),
        }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The namespace, once it is known.
    pub(crate) async fn namespace(&self) -> Result<&str, ClusterError> {
        Ok(&self.connected().await?.namespace)
    }

    /// One at a time; who has waited for another's attempt shares its failure.
    async fn connected(&self) -> Result<&Connected, ClusterError> {
        let asked = Instant::now();
        let failed = || self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let connect = async || {
            let since = |(at, _): &&(Instant, _)| *at >= asked;
            if let Some((_, error)) = failed().as_ref().filter(since) {
                return Err(ClusterError::Shared(Arc::clone(error)));
            }
            connect::connect(&self.source).await.map_err(|error| {
                let error = Arc::new(error);
                *failed() = Some((Instant::now(), Arc::clone(&error)));
                ClusterError::Shared(error)
            })
        };
        self.connected.get_or_try_init(connect).await
    }

    /// Creates an object. The values of an environment are in it, so that neither it nor
    /// the answer is ever logged.
    pub(crate) async fn create(&self, kind: Kind, object: &Value) -> Result<(), ClusterError> {
        let path = self.path(kind, "").await?;
        let request = Request::post(path).header("Content-Type", "application/json");
        let request = request.body(object.to_string().into_bytes());
        self.text("create", kind.plural(), request).await.map(drop)
    }

    /// Creates an object: what the API server made of it.
    pub(crate) async fn created<T: DeserializeOwned>(
        &self,
        kind: Kind,
        object: &Value,
    ) -> Result<T, ClusterError> {
        let path = self.path(kind, "").await?;
        let request = Request::post(path).header("Content-Type", "application/json");
        let request = request.body(object.to_string().into_bytes());
        self.object("create", kind.plural(), request).await
    }

    /// Changes fields of an object: what the API server made of it.
    pub(crate) async fn patch<T: DeserializeOwned>(
        &self,
        kind: Kind,
        name: &str,
        fields: &Value,
    ) -> Result<T, ClusterError> {
        let request = Request::patch(self.path(kind, name).await?);
        let request = request.header("Content-Type", "application/merge-patch+json");
        let request = request.body(fields.to_string().into_bytes());
        self.object("patch", kind.plural(), request).await
    }

    /// Takes our finalizer away from a pod, and nobody else's.
    pub(crate) async fn let_go(&self, pod: &str, uid: &str) -> Result<(), ClusterError> {
        let without = json!({"metadata": {
            "uid": uid, "$deleteFromPrimitiveList/finalizers": [labels::FINALIZER],
        }});
        let request = Request::patch(self.path(Kind::Pod, pod).await?);
        let request = request.header("Content-Type", "application/strategic-merge-patch+json");
        let request = request.body(without.to_string().into_bytes());
        self.text("patch", "pods", request).await.map(drop)
    }

    /// The objects that a selector finds.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        kind: Kind,
        selector: &str,
    ) -> Result<Listed<T>, ClusterError> {
        self.list_as(kind, selector, |object| object).await
    }

    /// What `read` makes of the objects that a selector finds, which are asked for page by
    /// page: no more than a page of them is held at a time.
    pub(crate) async fn list_as<T: DeserializeOwned, U>(
        &self,
        kind: Kind,
        selector: &str,
        read: impl Fn(T) -> U,
    ) -> Result<Listed<U>, ClusterError> {
        let path = self.path(kind, "").await?;
        let mut again = 0;
        let mut items = Vec::new();
        let first = format!("{path}?labelSelector={selector}&limit={PAGE}");
        let mut page = first.clone();
        loop {
            let request = Request::get(&page).body(Vec::new());
            let listed: Result<Listed<T>, _> = self.object("list", kind.plural(), request).await;
            let mut listed = match listed {
                // The pages that are left are not known any more: it is begun again.
                Err(ClusterError::Api { code: 410, .. })
                    if page != first && again < BEGUN_AGAIN =>
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

    /// What is told of one object from its beginning on, until the watch ends.
    pub(crate) async fn events(
        &self,
        uid: &str,
    ) -> Result<impl Stream<Item = Result<Event, ClusterError>> + use<'_>, ClusterError> {
        let query = format!("watch=true&fieldSelector=involvedObject.uid={uid}");
        let told = self.watch(Kind::Event, &query).await?;
        Ok(told.try_filter_map(|event| {
            std::future::ready(Ok(match event {
                WatchEvent::Added(event) | WatchEvent::Modified(event) => Some(event),
                _ => None,
            }))
        }))
    }

    /// What a watch tells, until it ends. One that says nothing lasts.
    async fn watch<T: DeserializeOwned>(
        &self,
        kind: Kind,
        query: &str,
    ) -> Result<impl Stream<Item = Result<WatchEvent<T>, ClusterError>> + use<'_, T>, ClusterError>
    {
        let path = self.path(kind, "").await?;
        let connected = self.connected().await?;
        let action = connected.action("watch", kind.plural());
        let request = Request::get(format!("{path}?{query}")).body(Vec::new());
        let request = request.map_err(|error| action.failed(kube::Error::HttpError(error)))?;
        let answer = timeout(ANSWER, connected.client.request_stream(request)).await;
        let answer = answer.map_err(|_| action.unreachable(late()))?;
        let lines = answer.map_err(|error| action.failed(error))?.lines();
        Ok(lines.map(move |line| {
            let line = line.map_err(|error| action.unreachable(error.to_string()))?;
            serde_json::from_str(&line).map_err(|error| action.unreachable(error.to_string()))
        }))
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        kind: Kind,
        name: &str,
    ) -> Result<T, ClusterError> {
        let request = Request::get(self.path(kind, name).await?).body(Vec::new());
        self.object("get", kind.plural(), request).await
    }

    /// Returns whether a look says that this object has gone, or that another one has its name. A 409 alone does not say so: others may have changed it at the same instant.
    pub(crate) async fn has_gone(&self, kind: Kind, name: &str, uid: &str) -> bool {
        match self.get::<PartialObjectMeta>(kind, name).await {
            Ok(there) => there.metadata.uid.is_some_and(|there| there != uid),
            Err(error) => error.meaning() == Meaning::Absent,
        }
    }

    /// Orders a deletion. What is not there any more, or another one, is [`Meaning`]'s
    /// `Absent` or `Conflict`.
    ///
    /// [`Meaning`]: crate::error::Meaning
    pub(crate) async fn delete(&self, kind: Kind, what: Deletion<'_>) -> Result<(), ClusterError> {
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
        let path = self.path(kind, what.name).await?;
        let request = Request::delete(path).header("Content-Type", "application/json");
        let request = request.body(options.to_string().into_bytes());
        self.text("delete", kind.plural(), request).await.map(drop)
    }

    /// Attaches to all three streams of a container. By name: the API has no other way.
    pub(crate) async fn attach(
        &self,
        pod: &str,
        container: &str,
    ) -> Result<Connection, ClusterError> {
        let query = format!("container={container}&stdin=true&stdout=true&stderr=true");
        let path = self.path(Kind::Pod, pod).await?;
        let connected = self.connected().await?;
        let request = Request::get(format!("{path}/attach?{query}")).body(Vec::new());
        // From Kubernetes 1.35 on it takes `create` as well.
        let action = connected.action("get", "pods/attach");
        let request = request.map_err(|error| action.failed(kube::Error::HttpError(error)))?;
        let answer = timeout(ANSWER, connected.client.connect(request)).await;
        let answer = answer.map_err(|_| action.unreachable(late()))?;
        answer.map_err(|error| action.failed(error))
    }

    async fn path(&self, kind: Kind, name: &str) -> Result<String, ClusterError> {
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
    ) -> Result<T, ClusterError> {
        let text = self.text(verb, resource, request).await?;
        let action = self.connected().await?.action(verb, resource);
        // Not by the client library, which logs what it cannot read.
        serde_json::from_str(&text).map_err(|error| action.unreachable(error.to_string()))
    }

    async fn text(
        &self,
        verb: &'static str,
        resource: &'static str,
        request: http::Result<Request<Vec<u8>>>,
    ) -> Result<String, ClusterError> {
        let connected = self.connected().await?;
        let action = connected.action(verb, resource);
        let request = request.map_err(|error| action.failed(kube::Error::HttpError(error)))?;
        let answer = timeout(ANSWER, connected.client.request_text(request)).await;
        let answer = answer.map_err(|_| action.unreachable(late()))?;
        answer.map_err(|error| action.failed(error))
    }
}

fn late() -> String {
    format!("nothing came for {} s", ANSWER.as_secs())
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

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}
