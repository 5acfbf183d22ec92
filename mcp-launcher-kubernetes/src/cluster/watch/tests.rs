//! What is told of pods, and what follows from it.

use super::*;
use crate::cluster::Source;
use crate::cluster::scripted::{Api, refused};
use crate::decide::{End, end};

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
    watcher.0.state.lock().runs = true;
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

fn running(metadata: &serde_json::Value) -> serde_json::Value {
    serde_json::json!({
        "metadata": metadata,
        "spec": {"nodeName": "n", "containers": [{"name": "server"}]},
        "status": {"containerStatuses": [{
            "name": "server", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "containerID": "containerd://c", "state": {"running": {}},
        }]},
    })
}

/// A watch over labels tells the change of a label as it tells a deletion.
#[tokio::test]
async fn a_pod_whose_labels_were_changed_is_looked_for_by_its_name() {
    let is_there = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let answers = Arc::clone(&is_there);
    let api = Api::start(move |asked| {
        assert_eq!(asked.what, "GET /api/v1/namespaces/default/pods/p");
        let there = answers.load(std::sync::atomic::Ordering::Relaxed);
        let pod = running(&serde_json::json!({"name": "p", "uid": "ours"}));
        async move {
            match there {
                true => (200, pod),
                false => refused(404, "NotFound", "not found"),
            }
        }
    })
    .await;
    let watcher = Watcher::new(api.cluster(), "a=b".to_owned());
    // As if it was running already: the events are told by this test.
    watcher.0.state.lock().runs = true;
    let entry = watcher.enter("p");
    // As it was before it was given to a node.
    entry.exists(facts("ours", serde_json::json!({})));
    let left = serde_json::json!({"name": "p", "uid": "ours", "resourceVersion": "7"});
    let left = serde_json::json!({"type": "DELETED", "object": {"metadata": left}});
    let event: WatchEvent<Pod> = serde_json::from_value(left).unwrap();
    assert_eq!(watcher.take(event).unwrap(), "7");
    assert_eq!(end(&entry.seen().borrow()), End::Alive);
    let mut seen = entry.seen();
    let limit = Duration::from_secs(30);
    let runs = seen.wait_for(|seen| seen.created);
    timeout(limit, runs).await.unwrap().unwrap();
    is_there.store(false, std::sync::atomic::Ordering::Relaxed);
    let gone = seen.wait_for(|seen| seen.object == Object::Missing);
    let gone = timeout(limit, gone).await.unwrap().unwrap().clone();
    match end(&gone) {
        End::Unproven(why) => assert!(why.contains("is gone"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_deletion_is_told_by_its_grace_of_0_and_what_is_said_later_is_old() {
    let watcher = Watcher::new(Arc::new(Cluster::new(Source::default())), "a=b".to_owned());
    watcher.0.state.lock().runs = true;
    let entry = watcher.enter("p");
    entry.exists(facts("ours", serde_json::json!({})));
    let gone = serde_json::json!({"name": "p", "uid": "ours", "resourceVersion": "7",
        "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0});
    let event = serde_json::json!({"type": "DELETED", "object": running(&gone)});
    watcher
        .take(serde_json::from_value(event).unwrap())
        .unwrap();
    let old = running(&serde_json::json!({}));
    watcher.tell("p", facts("ours", old), Object::Present);
    let seen = entry.seen().borrow().clone();
    assert_eq!(seen.object, Object::Deleted);
    match end(&seen) {
        End::Unproven(why) => assert!(why.contains("by force"), "{why}"),
        other => panic!("{other:?}"),
    }
}
