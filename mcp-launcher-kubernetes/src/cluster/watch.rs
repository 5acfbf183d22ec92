//! The one watch over all pods of a launcher.
//!
//! ```text
//!        first entry                 410, or an error
//!   idle ──────────▶ list ──▶ watch ────────────────▶ list again
//!     ▲                         │ the server closes it, as it does every few minutes: watch again
//!     └── no entry is left ─────┘
//! ```
//!
//! A pod leaves the selection when it is deleted or when its labels are changed; both arrive as the
//! same event. A pod that was not deleted is polled by name. A pod that is absent without a
//! deletion event is `Missing`, which proves nothing.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::core::WatchEvent;
use mcp_lifecycle_core::backend::known::learn;
use mcp_lifecycle_core::lock::Lock;
use tokio::sync::{Notify, watch as channel};
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::{Cluster, Kind, Listed, Pauses};
use crate::decide::{Lost, Object, Seen};
use crate::error::{Case, ClusterError, Meaning, Result};
use crate::facts::Facts;

const LASTS: Duration = Duration::from_secs(240);

/// A watch that is silent for this much longer than its lifetime was cut silently.
const SILENT: Duration = Duration::from_secs(30);

const LOOKS: Duration = Duration::from_secs(1);

/// Watches the pods of one launcher, while there are any.
#[derive(Debug, Clone)]
pub(crate) struct Watcher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    cluster: Arc<Cluster>,
    selector: String,
    state: Lock<State>,
    left: Notify,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<String, Watched>,
    runs: bool,
    /// Version at which the first watch starts, if not with a list.
    begins: Option<String>,
}

#[derive(Debug)]
struct Watched {
    seen: channel::Sender<Seen>,
    /// Its creation was confirmed: a later list without it is evidence.
    exists: bool,
    uid: Option<String>,
    /// It is outside the selection and polled by name.
    is_looked_for: bool,
}

/// A pod that is watched, until this is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    watcher: Watcher,
    name: String,
    seen: channel::Receiver<Seen>,
}

impl Watcher {
    pub(crate) fn new(cluster: Arc<Cluster>, selector: String) -> Self {
        Self(Arc::new(Shared {
            cluster,
            selector,
            state: Lock::default(),
            left: Notify::new(),
        }))
    }

    pub(crate) fn beginning(self, version: String) -> Self {
        self.0.state.lock().begins = Some(version);
        self
    }

    /// Watches the pod of this name from now on. Called on the control thread, before the creation.
    pub(crate) fn enter(&self, name: &str) -> Entry {
        let (sender, seen) = channel::channel(Seen::default());
        let mut state = self.0.state.lock();
        let watched = Watched {
            seen: sender,
            exists: false,
            uid: None,
            is_looked_for: false,
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

    async fn run(self) {
        let mut pauses = Pauses::new();
        let mut version = self.0.state.lock().begins.take();
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
            // Deletions in between are reported by a resumed watch, but not by a list.
            let gone_on = error.is_of_connection();
            let is_too_old = error.case == Case::Expired;
            if !gone_on || is_too_old {
                version = None;
            }
            if is_too_old || !self.is_needed() {
                continue;
            }
            warn!(%error, "pods are not watched at the moment");
            let lost = lost(&error);
            for watched in self.0.state.lock().entries.values() {
                learn(&watched.seen, |seen| seen.lost = Some(lost.clone()));
            }
            pauses.after(&error).await;
        }
    }

    fn is_heard(&self) {
        for watched in self.0.state.lock().entries.values() {
            learn(&watched.seen, |seen| seen.lost = None);
        }
    }

    /// Returns whether any pod is left; if not, the watch counts as stopped.
    fn is_needed(&self) -> bool {
        let mut state = self.0.state.lock();
        state.runs = !state.entries.is_empty();
        state.runs
    }

    async fn list(&self) -> Result<String> {
        let known: Vec<String> = {
            let state = self.0.state.lock();
            let exist = state.entries.iter().filter(|(_, watched)| watched.exists);
            exist.map(|(name, _)| name.clone()).collect()
        };
        let cluster = &self.0.cluster;
        let read = |pod: Pod| {
            (
                pod.metadata.name.clone().unwrap_or_default(),
                Facts::of(pod),
            )
        };
        let list: Listed<(String, Facts)> =
            cluster.list_as(Kind::Pod, &self.0.selector, read).await?;
        let mut present = Vec::new();
        for (name, facts) in list.items {
            self.is_selected(&name);
            self.tell(&name, facts, Object::Present);
            present.push(name);
        }
        self.is_heard();
        for name in known.iter().filter(|name| !present.contains(name)) {
            self.look_for(name);
        }
        Ok(list.metadata.resource_version)
    }

    /// Watches until the watch is lost or no longer needed. `version` follows its progress.
    async fn watch(&self, version: &mut String) -> Result<()> {
        let cluster = &self.0.cluster;
        loop {
            let seconds = LASTS.as_secs();
            let query = format!(
                "watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}\
                 &resourceVersion={version}&labelSelector={}",
                self.0.selector
            );
            let mut events = pin!(cluster.watch(Kind::Pod, &query).await?);
            self.is_heard();
            let before = version.clone();
            loop {
                if !self.is_needed() {
                    return Ok(());
                }
                let event = tokio::select! {
                    event = timeout(LASTS + SILENT, events.next()) => event,
                    () = self.0.left.notified() => continue,
                };
                let action = cluster.connected().await?.action("watch", "pods");
                let event =
                    event.map_err(|_| action.unreachable("the watch is silent".to_owned()))?;
                let Some(event) = event.transpose()? else {
                    break;
                };
                match self.take(event) {
                    Ok(next) => *version = next,
                    Err(status) => return Err(action.refused(*status)),
                }
            }
            if *version == before {
                // The watch ended at once or nothing happened: avoid a tight loop.
                sleep(Pauses::FIRST).await;
            }
        }
    }

    fn take(&self, event: WatchEvent<Pod>) -> Result<String, Box<kube::core::Status>> {
        let (pod, is_selected) = match event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => (pod, true),
            WatchEvent::Deleted(pod) => (pod, false),
            WatchEvent::Bookmark(mark) => return Ok(mark.metadata.resource_version),
            WatchEvent::Error(status) => return Err(status),
        };
        let version = pod.metadata.resource_version.clone().unwrap_or_default();
        let name = pod.metadata.name.clone().unwrap_or_default();
        let facts = Facts::of(pod);
        // The API server ends every deletion of a pod by setting a grace of 0.
        let is_deleted = !is_selected && facts.finished;
        if is_selected {
            self.is_selected(&name);
        }
        self.tell(
            &name,
            facts,
            match is_deleted {
                true => Object::Deleted,
                false => Object::Present,
            },
        );
        if !is_selected && !is_deleted {
            self.look_for(&name);
        }
        Ok(version)
    }

    fn is_selected(&self, name: &str) {
        if let Some(watched) = self.0.state.lock().entries.get_mut(name) {
            watched.is_looked_for = false;
        }
    }

    fn look_for(&self, name: &str) {
        if let Some(watched) = self.0.state.lock().entries.get_mut(name)
            && !std::mem::replace(&mut watched.is_looked_for, true)
        {
            tokio::spawn(self.clone().look(name.to_owned()));
        }
    }

    async fn look(self, name: String) {
        let mut pauses = Pauses::new();
        while self.has_to_look(&name) {
            match self.0.cluster.get::<Pod>(Kind::Pod, &name).await {
                Ok(pod) => {
                    self.tell(&name, Facts::of(pod), Object::Present);
                    pauses = Pauses::new();
                    sleep(LOOKS).await;
                }
                Err(error) if error.meaning == Meaning::Absent => {
                    if let Some(watched) = self.0.state.lock().entries.get(&name) {
                        learn(&watched.seen, Seen::is_missing);
                    }
                }
                Err(error) => {
                    warn!(pod = name, %error, "a pod whose labels were changed is not seen at the moment");
                    if let Some(watched) = self.0.state.lock().entries.get(&name) {
                        learn(&watched.seen, |seen| seen.lost = Some(lost(&error)));
                    }
                    pauses.after(&error).await;
                }
            }
        }
    }

    fn has_to_look(&self, name: &str) -> bool {
        let state = self.0.state.lock();
        state.entries.get(name).is_some_and(|watched| {
            watched.is_looked_for && watched.seen.borrow().object == Object::Present
        })
    }

    fn tell(&self, name: &str, facts: Facts, object: Object) {
        if let Some(watched) = self.0.state.lock().entries.get_mut(name) {
            let ours = watched.uid.get_or_insert_with(|| facts.uid.clone());
            if *ours != facts.uid {
                learn(&watched.seen, Seen::is_missing);
                return;
            }
            learn(&watched.seen, |seen| {
                // A deleted object does not return: this event is older than the deletion.
                if object != Object::Present || seen.object == Object::Present {
                    seen.told(facts);
                    seen.object = object;
                }
            });
        }
    }
}

fn lost(error: &ClusterError) -> Lost {
    Lost {
        words: error.to_string(),
        refused: error.meaning == Meaning::Refused,
    }
}

impl Entry {
    pub(crate) fn seen(&self) -> channel::Receiver<Seen> {
        self.seen.clone()
    }

    /// Confirms the creation: from here on a list without the pod is evidence.
    pub(crate) fn exists(&self, facts: Facts) {
        if let Some(watched) = self.watcher.0.state.lock().entries.get_mut(&self.name) {
            watched.exists = true;
            watched.uid = Some(facts.uid.clone());
            learn(&watched.seen, |seen| {
                // The watch may have been faster and know more.
                if seen.last.is_none() {
                    seen.told(facts);
                }
            });
        }
    }

    /// Polls it by name: it was created without the label that the watch selects.
    pub(crate) fn look_for(&self) {
        self.watcher.look_for(&self.name);
    }

    /// Records that the server runs, before the kubelet reports it.
    pub(crate) fn runs(&self) {
        if let Some(watched) = self.watcher.0.state.lock().entries.get(&self.name) {
            learn(&watched.seen, |seen| {
                (seen.created, seen.ran) = (true, true)
            });
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.watcher.0.state.lock().entries.remove(&self.name);
        self.watcher.0.left.notify_one();
    }
}

#[cfg(test)]
mod tests;
