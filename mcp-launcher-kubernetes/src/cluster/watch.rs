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
use tracing::warn;

use super::{Cluster, Kind, Listed, Pauses};
use crate::error::{ClusterError, Meaning};
use crate::pod::{Facts, Lost, Object, Seen};

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
    /// Another object of the name is somebody else's.
    uid: Option<String>,
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
            uid: None,
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
        let mut version = None;
        while self.is_needed() {
            let watched = match &mut version {
                None => self.list().await.map(|listed| version = Some(listed)),
                Some(at) => self.watch(at).await,
            };
            let error = match watched {
                Ok(()) => {
                    pauses = Pauses::new();
                    continue;
                }
                Err(error) => error,
            };
            // What was deleted in between is told where the watch goes on, and by no list.
            let gone_on = matches!(error.meaning(), Meaning::Unheard | Meaning::Busy(_));
            let is_too_old = matches!(&error, ClusterError::Api { code: 410, .. });
            if !gone_on || is_too_old {
                version = None;
            }
            if is_too_old || !self.is_needed() {
                continue;
            }
            warn!(%error, "pods are not watched at the moment");
            let lost = Lost {
                words: error.to_string(),
                refused: error.meaning() == Meaning::Refused,
            };
            for watched in self.state().entries.values() {
                change(watched, |seen| seen.lost = Some(lost.clone()));
            }
            pauses.after(&error).await;
        }
    }

    fn is_heard(&self) {
        for watched in self.state().entries.values() {
            change(watched, |seen| seen.lost = None);
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
        self.is_heard();
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

    /// Watches until it is lost, or nobody needs it; `version` is how far it came.
    async fn watch(&self, version: &mut String) -> Result<(), ClusterError> {
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
            self.is_heard();
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
                    Ok(next) => *version = next,
                    Err(status) => return Err(action.refused(*status)),
                }
            }
            if *version == before {
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
        if let Some(watched) = self.state().entries.get_mut(name) {
            let ours = watched.uid.get_or_insert_with(|| facts.uid.clone());
            if *ours != facts.uid {
                change(watched, |seen| match seen.object {
                    Object::Present => seen.object = Object::Missing,
                    Object::Deleted | Object::Missing => {}
                });
                return;
            }
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
            watched.uid = Some(facts.uid.clone());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Source;
    use crate::pod::{End, end};

    fn facts(uid: &str, json: serde_json::Value) -> Facts {
        let mut pod = json;
        pod["metadata"] = serde_json::json!({ "uid": uid });
        Facts::of(serde_json::from_value(pod).unwrap())
    }

    #[tokio::test]
    async fn another_object_of_the_name_proves_nothing() {
        let cluster = Arc::new(Cluster::new(Source::default()));
        let watcher = Watcher::new(cluster, "a=b".to_owned());
        // As if it was running already: nothing is asked of a cluster here.
        watcher.state().runs = true;
        let entry = watcher.enter("p");
        let status = |state: serde_json::Value| {
            serde_json::json!({
                "spec": {"nodeName": "n", "containers": [{"name": "server"}]},
                "status": {"containerStatuses": [{
                    "name": "server", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "containerID": "containerd://c", "state": state,
                }]},
            })
        };
        entry.exists(facts("ours", status(serde_json::json!({"running": {}}))));
        let ended = serde_json::json!({"terminated": {"exitCode": 0}});
        watcher.tell("p", facts("another", status(ended)), Object::Present);
        let seen = entry.seen().borrow().clone();
        assert_eq!(seen.object, Object::Missing);
        assert!(matches!(end(&seen), End::Unproven(_)), "{seen:?}");
    }
}
