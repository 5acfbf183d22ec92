//! The objects of the model, and who watches them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The size of a pod in JSON from a real API server (1.20, with its managed fields).
const POD_BYTES: usize = 7200;

type Watcher = mpsc::UnboundedSender<Bytes>;

/// Everything that the API server knows.
#[derive(Clone, Default)]
pub(crate) struct Store(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    version: u64,
    /// By kind, then by name.
    objects: HashMap<String, BTreeMap<String, Value>>,
    watchers: Vec<(String, Watcher)>,
    /// The last events, for watches that begin in the past.
    told: VecDeque<(u64, Value, Bytes)>,
    counts: Counts,
    /// How often a request is refused, and with what.
    faults: HashMap<String, (u16, u32)>,
}

/// So many events are kept.
const KEPT: usize = 5000;

/// What was asked and told since it was last looked at.
#[derive(Default, serde::Serialize, serde::Deserialize, Clone, Debug)]
pub(crate) struct Counts {
    /// Requests, by verb and resource.
    pub(crate) requests: BTreeMap<String, u64>,
    pub(crate) watch_bytes: u64,
    pub(crate) list_bytes: u64,
    /// Of streams.
    pub(crate) pings: u64,
    /// Now, not since.
    pub(crate) watches: usize,
    pub(crate) objects: BTreeMap<String, usize>,
}

impl Store {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn count(&self, request: String) {
        *self.lock().counts.requests.entry(request).or_default() += 1;
    }

    pub(crate) fn count_ping(&self) {
        self.lock().counts.pings += 1;
    }

    /// The code that this request is refused with, if it is.
    pub(crate) fn fault(&self, request: &str) -> Option<u16> {
        let mut state = self.lock();
        let (code, times) = state.faults.get_mut(request)?;
        *times = times.checked_sub(1)?;
        Some(*code)
    }

    /// Refuses a request so many times.
    pub(crate) fn break_down(&self, request: &str, code: u16, times: u32) {
        let mut state = self.lock();
        state.faults.insert(request.to_owned(), (code, times));
    }

    /// The counts since the last call.
    pub(crate) fn counts(&self) -> Counts {
        let mut state = self.lock();
        state.watchers.retain(|(_, watcher)| !watcher.is_closed());
        let counts = std::mem::take(&mut state.counts);
        let objects = state.objects.iter();
        Counts {
            watches: state.watchers.len(),
            objects: objects
                .map(|(kind, all)| (kind.clone(), all.len()))
                .collect(),
            ..counts
        }
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.lock().objects.get(kind)?.get(name).cloned()
    }

    /// Creates what was posted; `None` where the name is taken.
    pub(crate) fn create(&self, kind: &str, mut object: Value) -> Option<Value> {
        let mut state = self.lock();
        let name = object["metadata"]["name"].as_str()?.to_owned();
        if state
            .objects
            .get(kind)
            .is_some_and(|all| all.contains_key(&name))
        {
            return None;
        }
        object["metadata"]["uid"] = format!("uid-{}-{name}", state.version).into();
        if kind == "pods" {
            let length = object.to_string().len();
            let rest = "x".repeat(POD_BYTES.saturating_sub(length));
            object["metadata"]["annotations"]["managed-fields"] = rest.into();
        }
        Some(state.put(kind, "ADDED", object))
    }

    /// Changes an object that is there.
    pub(crate) fn change(
        &self,
        kind: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Option<Value> {
        let mut state = self.lock();
        let mut object = state.objects.get(kind)?.get(name)?.clone();
        change(&mut object);
        Some(state.put(kind, "MODIFIED", object))
    }

    /// Deletes an object, unless a finalizer keeps it.
    pub(crate) fn delete(&self, kind: &str, name: &str) -> Option<Value> {
        if is_kept(&self.get(kind, name)?) {
            return self.change(kind, name, |object| {
                object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
            });
        }
        self.delete_with(kind, name, |_| {})
    }

    /// Takes the finalizers of a pod away, and the pod with them if it is deleted.
    pub(crate) fn let_go(&self, name: &str) -> Option<Value> {
        let pod = self.change("pods", name, |pod| {
            pod["metadata"]["finalizers"] = Value::Null;
        })?;
        match pod["metadata"]["deletionTimestamp"].is_null() {
            true => Some(pod),
            false => self.delete_with("pods", name, |_| {}),
        }
    }

    /// Deletes an object, and changes it with that.
    pub(crate) fn delete_with(
        &self,
        kind: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Option<Value> {
        let mut state = self.lock();
        let mut object = state.objects.get_mut(kind)?.remove(name)?;
        change(&mut object);
        if kind == "pods" {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        }
        Some(state.tell(kind, "DELETED", object))
    }

    /// The list that a selector finds: those of one instance, or all. At most `limit`, and
    /// only those after this name.
    pub(crate) fn list(&self, kind: &str, selector: &str, limit: usize, after: &str) -> String {
        let mut state = self.lock();
        let none = BTreeMap::new();
        let all = state.objects.get(kind).unwrap_or(&none);
        let mut found = all
            .iter()
            .filter(|(name, object)| name.as_str() > after && is_selected(object, selector));
        let page: Vec<_> = found.by_ref().take(limit).collect();
        let rest = found.next().and(page.last()).map(|(name, _)| *name);
        let items: Vec<&Value> = page.iter().map(|(_, object)| *object).collect();
        let version = state.version.to_string();
        let meta = json!({"resourceVersion": version, "continue": rest});
        let list = json!({"metadata": meta, "items": items}).to_string();
        state.counts.list_bytes += list.len() as u64;
        list
    }

    /// What happens from this version on; `None` where that is not known any more.
    pub(crate) fn watch(
        &self,
        selector: String,
        version: u64,
    ) -> Option<mpsc::UnboundedReceiver<Bytes>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.lock();
        let oldest = state.told.front().map_or(0, |(at, _, _)| *at);
        if state.told.len() == KEPT && version < oldest {
            return None;
        }
        let missed = state
            .told
            .iter()
            .filter(|(at, object, _)| *at > version && is_selected(object, &selector));
        for (_, _, line) in missed {
            let _ = sender.send(line.clone());
        }
        state.watchers.push((selector, sender));
        Some(receiver)
    }
}

impl State {
    fn put(&mut self, kind: &str, event: &str, object: Value) -> Value {
        let object = self.tell(kind, event, object);
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let all = self.objects.entry(kind.to_owned()).or_default();
        all.insert(name.to_owned(), object.clone());
        object
    }

    fn tell(&mut self, kind: &str, event: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if kind == "pods" {
            let line = format!("{}\n", json!({"type": event, "object": object}));
            let line = Bytes::from(line);
            let mut told = 0;
            self.watchers.retain(|(selector, watcher)| {
                if !is_selected(&object, selector) {
                    return true;
                }
                told += line.len() as u64;
                watcher.send(line.clone()).is_ok()
            });
            self.counts.watch_bytes += told;
            let labels = json!({"metadata": {"labels": object["metadata"]["labels"]}});
            self.told.push_back((self.version, labels, line));
            if self.told.len() > KEPT {
                self.told.pop_front();
            }
        }
        object
    }
}

/// As far as our selectors go: `dev.mcp-lifecycle.instance` alone, or with its value.
fn is_selected(object: &Value, selector: &str) -> bool {
    let first = selector.split(',').next().unwrap_or_default();
    let labels = &object["metadata"]["labels"];
    match first.split_once('=') {
        Some((key, value)) => labels[key] == value,
        None => !labels[first].is_null(),
    }
}

fn is_kept(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|finalizers| !finalizers.is_empty())
}
