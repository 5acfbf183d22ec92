//! The one watch over all pods of a launcher.
//!
//! ```text
//!        first entry                 410, or an error
//!   idle ──────────▶ list ──▶ watch ────────────────▶ list again
//!     ▲                         │ the server closes it, as it does every few minutes: watch again
//!     └── no entry is left ─────┘
//! ```
//!
//! A pod that a list does not have, and whose deletion was not told, is `Missing`: that is no
//! proof of anything.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{AsyncBufReadExt, StreamExt, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::core::WatchEvent;
use tokio::sync::{Notify, watch as channel};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{Cluster, Kind, Listed, Pauses};
use crate::error::ClusterError;
use crate::pod::{Facts, Object, Seen};

/// The server ends a watch after this time; it is not lost then.
const LASTS: Duration = Duration::from_secs(240);

/// A watch that says nothing for this much longer than it lasts has been cut silently.
const SILENT: Duration = Duration::from_secs(30);

/// Watches the pods of one launcher, while there are any.
#[derive(Debug, Clone)]
pub(crate) struct Watcher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    cluster: Arc<Cluster>,
    selector: String,
    state: Mutex<State>,
    /// Told when an entry has gone.
    left: Notify,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<String, Watched>,
    runs: bool,
}

#[derive(Debug)]
struct Watched {
    seen: channel::Sender<Seen>,
    /// Its create was answered: a list that was begun later and does not have it says
    /// something.
    exists: bool,
}

/// A pod that is watched, until this is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    watcher: Watcher,
    name: String,
    seen: channel::Receiver<Seen>,
}

impl Watcher {
    /// Pods that this selector finds.
    pub(crate) fn new(cluster: Arc<Cluster>, selector: String) -> Self {
        Self(Arc::new(Shared {
            cluster,
            selector,
            state: Mutex::default(),
            left: Notify::new(),
        }))
    }

    /// Watches the pod of this name from now on. To be called on the control thread, and
    /// before the pod is created.
    pub(crate) fn enter(&self, name: &str) -> Entry {
        let (sender, seen) = channel::channel(Seen::default());
        let mut state = self.state();
        let watched = Watched {
            seen: sender,
            exists: false,
        };
        state.entries.insert(name.to_owned(), watched);
        if !std::mem::replace(&mut state.runs, true) {
            tokio::spawn(self.clone().run());
        }
        Entry {
            watcher: self.clone(),
            name: name.to_owned(),
            seen,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self) {
        let mut pauses = Pauses::new();
        while self.is_needed() {
            let error = match self.list().await {
                Ok(version) => match self.watch(version).await {
                    Ok(()) => {
                        pauses = Pauses::new();
                        continue;
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if !self.is_needed() {
                break;
            }
            warn!(%error, "pods are not watched at the moment");
            let lost = error.to_string();
            for watched in self.state().entries.values() {
                change(watched, |seen| seen.lost = Some(lost.clone()));
            }
            pauses.after(&error).await;
        }
    }

    /// Whether there is a pod left; if not, the watch is over from here on.
    fn is_needed(&self) -> bool {
        let mut state = self.state();
        state.runs = !state.entries.is_empty();
        state.runs
    }

    async fn list(&self) -> Result<String, ClusterError> {
        let known: Vec<String> = {
            let state = self.state();
            let exist = state.entries.iter().filter(|(_, watched)| watched.exists);
            exist.map(|(name, _)| name.clone()).collect()
        };
        let cluster = &self.0.cluster;
        let list: Listed<Pod> = cluster.list(Kind::Pod, &self.0.selector).await?;
        let mut present = Vec::new();
        for pod in list.items {
            let name = pod.metadata.name.clone().unwrap_or_default();
            self.tell(&name, Facts::of(pod), Object::Present);
            present.push(name);
        }
        let state = self.state();
        for name in known.iter().filter(|name| !present.contains(name)) {
            if let Some(watched) = state.entries.get(name) {
                change(watched, |seen| match seen.object {
                    Object::Present => seen.object = Object::Missing,
                    Object::Deleted | Object::Missing => {}
                });
            }
        }
        Ok(list.metadata.resource_version)
    }

    /// Watches until it is lost, or nobody needs it. `Ok` asks for a new list.
    async fn watch(&self, mut version: String) -> Result<(), ClusterError> {
        let cluster = &self.0.cluster;
        let connected = cluster.connected().await?;
        let action = connected.action("watch", "pods");
        loop {
            let path = cluster.path(Kind::Pod, "").await?;
            let seconds = LASTS.as_secs();
            let query = format!(
                "watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}\
                 &resourceVersion={version}&labelSelector={}",
                self.0.selector
            );
            let request = Request::get(format!("{path}?{query}")).body(Vec::new());
            let request = request.map_err(|error| action.failed(kube::Error::HttpError(error)))?;
            let answer = timeout(super::ANSWER, connected.client.request_stream(request)).await;
            let answer = answer.map_err(|_| action.unreachable(super::late()))?;
            let lines = answer.map_err(|error| action.failed(error))?.lines();
            let mut lines = pin!(lines.map_err(|error| action.unreachable(error.to_string())));
            let before = version.clone();
            loop {
                if !self.is_needed() {
                    return Ok(());
                }
                let line = tokio::select! {
                    line = timeout(LASTS + SILENT, lines.next()) => line,
                    () = self.0.left.notified() => continue,
                };
                let line =
                    line.map_err(|_| action.unreachable("the watch is silent".to_owned()))?;
                let Some(line) = line.transpose()? else { break };
                let event = serde_json::from_str::<WatchEvent<Pod>>(&line)
                    .map_err(|error| action.unreachable(error.to_string()))?;
                match self.take(event) {
                    Ok(next) => version = next,
                    Err(status) if status.code == 410 => {
                        debug!("the watch is too old: pods are listed again");
                        return Ok(());
                    }
                    Err(status) => return Err(action.refused(*status)),
                }
            }
            if version == before {
                // It ended at once, or nothing has happened: not in a tight loop.
                tokio::time::sleep(Pauses::FIRST).await;
            }
        }
    }

    /// Takes one event: the version that the watch has come to.
    fn take(&self, event: WatchEvent<Pod>) -> Result<String, Box<kube::core::Status>> {
        let (pod, object) = match event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => (pod, Object::Present),
            WatchEvent::Deleted(pod) => (pod, Object::Deleted),
            WatchEvent::Bookmark(mark) => return Ok(mark.metadata.resource_version),
            WatchEvent::Error(status) => return Err(status),
        };
        let version = pod.metadata.resource_version.clone().unwrap_or_default();
        let name = pod.metadata.name.clone().unwrap_or_default();
        self.tell(&name, Facts::of(pod), object);
        Ok(version)
    }

    fn tell(&self, name: &str, facts: Facts, object: Object) {
        if let Some(watched) = self.state().entries.get(name) {
            change(watched, |seen| {
                seen.told(facts);
                seen.object = object;
            });
        }
    }
}

fn change(watched: &Watched, change: impl FnOnce(&mut Seen)) {
    watched.seen.send_if_modified(|seen| {
        let before = seen.clone();
        change(seen);
        *seen != before
    });
}

impl Entry {
    /// What was seen of it so far.
    pub(crate) fn seen(&self) -> channel::Receiver<Seen> {
        self.seen.clone()
    }

    /// Its create was answered: from here on a list that does not have it says something.
    pub(crate) fn exists(&self, facts: Facts) {
        if let Some(watched) = self.watcher.state().entries.get_mut(&self.name) {
            watched.exists = true;
            change(watched, |seen| {
                // The watch may have been faster, and knows more.
                if seen.last.is_none() {
                    seen.told(facts);
                }
            });
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.watcher.state().entries.remove(&self.name);
        self.watcher.0.left.notify_one();
    }
}
