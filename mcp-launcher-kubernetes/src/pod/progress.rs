//! Progress of a launch, from the events of its pod.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::Event;
use mcp_lifecycle_core::launch::LaunchProgress;
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::debug;

use super::launch::Job;
use crate::cluster::Entry;
use crate::error::{Meaning, Result};
use crate::facts::SERVER;

const AGAIN: Duration = Duration::from_secs(1);

/// Reason of the event of a container's start, which precedes the status by up to a second.
const STARTED: &str = "Started";

/// Reports the pod's events to the caller until dropped, and the server's start to `entry` and
/// `started`. A launch does not depend on events: if they cannot be watched, nothing is reported.
pub(super) async fn tell(job: &Job, uid: &str, entry: &Entry, started: &Notify) -> Infallible {
    let mut told = Told::default();
    loop {
        match follow(job, uid, &mut told, entry, started).await {
            Err(error) if error.meaning == Meaning::Refused => {
                debug!(pod = job.name, %error, "events cannot be watched");
                std::future::pending::<()>().await;
            }
            _ => sleep(AGAIN).await,
        }
    }
}

async fn follow(
    job: &Job,
    uid: &str,
    told: &mut Told,
    entry: &Entry,
    started: &Notify,
) -> Result<()> {
    let mut events = pin!(job.cluster.events(uid).await?);
    while let Some(event) = events.try_next().await? {
        heard(&event, entry, started);
        if let Some(what) = told.news(event) {
            let what = format!("{}: {what}", job.name);
            job.context.report(&LaunchProgress::new(what));
        }
    }
    Ok(())
}

/// Records the start: from here on the pod counts as having had a container.
fn heard(event: &Event, entry: &Entry, started: &Notify) {
    if is_start(event) {
        entry.runs();
        started.notify_one();
    }
}

fn is_start(event: &Event) -> bool {
    let of = event.involved_object.field_path.as_deref();
    let server = of.and_then(|of| of.strip_prefix("spec.containers{")?.strip_suffix('}'));
    event.reason.as_deref() == Some(STARTED) && server == Some(SERVER)
}

/// The reported events, by UID, with their counts.
#[derive(Default)]
struct Told(HashMap<String, i32>);

impl Told {
    fn news(&mut self, event: Event) -> Option<String> {
        let count = event.count.unwrap_or(1);
        let uid = event.metadata.uid.unwrap_or_default();
        if self.0.insert(uid, count) == Some(count) {
            return None;
        }
        let reason = event.reason.unwrap_or_default();
        let message = event.message.unwrap_or_default();
        Some(format!("{reason}: {message}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::Watcher;
    use crate::cluster::scripted::Api;
    use crate::decide::{End, Object, end};
    use crate::facts::Facts;

    fn event(uid: &str, count: i32, reason: &str, container: &str) -> Event {
        let value = json!({
            "metadata": {"uid": uid}, "count": count, "reason": reason, "message": "words",
            "involvedObject": {"fieldPath": format!("spec.containers{{{container}}}")},
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn each_event_is_told_once_and_again_when_it_comes_again() {
        let mut told = Told::default();
        let mut news = |uid, count| told.news(event(uid, count, "Pulling", "server"));
        let words = Some("Pulling: words".to_owned());
        assert_eq!(news("a", 1), words);
        assert_eq!(news("b", 1), words);
        assert_eq!(news("a", 1), None);
        assert_eq!(news("a", 2), words);
    }

    #[test]
    fn only_the_start_of_the_server_is_its_start() {
        assert!(is_start(&event("a", 1, "Started", "server")));
        assert!(!is_start(&event("a", 1, "Started", "beside")));
        assert!(!is_start(&event("a", 1, "Created", "server")));
    }

    #[tokio::test]
    async fn a_pod_deleted_between_its_start_and_its_first_status_is_not_one_that_never_ran() {
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": []});
        let api = Api::start(move |_| std::future::ready((200, list.clone()))).await;
        let watcher = Watcher::new(api.cluster(), "a=b".to_owned());
        let entry = watcher.enter("p");
        let placed = |metadata| {
            let spec = json!({"nodeName": "n", "containers": [{"name": SERVER}]});
            Facts::of(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
        };
        entry.exists(placed(json!({"uid": "u"})));
        let deleted = || {
            let mut seen = entry.seen().borrow().clone();
            let at = "2026-01-01T00:00:00Z";
            seen.told(placed(json!({"uid": "u", "deletionTimestamp": at})));
            seen.object = Object::Deleted;
            end(&seen)
        };
        let started = Notify::new();
        heard(&event("a", 1, "Started", "beside"), &entry, &started);
        assert!(matches!(deleted(), End::Gone(_)), "{:?}", deleted());
        heard(&event("b", 1, "Started", "server"), &entry, &started);
        assert!(matches!(deleted(), End::Unproven(_)), "{:?}", deleted());
        started.notified().await;
    }
}
