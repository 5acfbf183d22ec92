//! Decisions on what kubelets say, in the words of the API.

use super::*;

/// A pod of which a kubelet of 1.20 says this, in the words of the API.
fn told(deleted: bool, status: serde_json::Value) -> Facts {
    let mut pod = serde_json::json!({
        "metadata": {"uid": "u"},
        "spec": {"nodeName": "n1", "containers": [{"name": "server"}]},
        "status": {"phase": "Running", "containerStatuses": [status]},
    });
    if deleted {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    Facts::of(serde_json::from_value(pod).unwrap())
}

/// What the kubelet tells of a container that it has removed before it told of its end.
fn not_found(reason: &str) -> serde_json::Value {
    lost_with(reason, "The container could not be located")
}

/// The same, in the words of one that knows of the deletion.
fn not_found_in_deletion() -> serde_json::Value {
    let words = "The container could not be located when the pod was deleted.  The container used to be Running";
    lost_with("ContainerStatusUnknown", words)
}

fn lost_with(reason: &str, words: &str) -> serde_json::Value {
    serde_json::json!({
        "name": "server", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ContainerCreating"}},
        "lastState": {"terminated": {"reason": reason, "exitCode": 137, "message": words}},
    })
}

fn runs() -> serde_json::Value {
    serde_json::json!({
        "name": "server", "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "containerID": "containerd://c", "state": {"running": {}},
    })
}

#[test]
fn a_container_that_was_removed_before_its_end_was_told_has_ended() {
    let mut ending = seen(told(false, runs()));
    ending.told(told(true, runs()));
    assert_eq!(end(&ending), End::Alive);
    ending.told(told(true, not_found("ContainerStatusUnknown")));
    assert_eq!(end(&ending), End::Terminated(ExitStatus::Unknown));
    // Also when it is told again.
    ending.told(told(true, not_found("ContainerStatusUnknown")));
    assert_eq!(end(&ending), End::Terminated(ExitStatus::Unknown));
    assert_eq!(deleted(ending, Object::Deleted), End::Gone(INFERRED));
    // Of a pod that nobody deletes, or after any other end, it is a container that comes back.
    for (is_deleted, reason) in [(false, "ContainerStatusUnknown"), (true, "Error")] {
        let mut restarting = seen(told(false, runs()));
        restarting.told(told(is_deleted, not_found(reason)));
        assert_eq!(end(&restarting), End::Alive, "{reason}");
    }
}

/// A container is removed behind the back of its kubelet, which starts another, also where a pod
/// restarts never (seen with 1.20); before that one is told, somebody deletes the pod: the
/// object then has the deletion, and a status from before it.
#[test]
fn a_container_that_was_lost_before_the_deletion_may_have_a_successor() {
    let mut restarted = not_found("ContainerStatusUnknown");
    restarted["restartCount"] = 1.into();
    let mut lost = seen(told(false, runs()));
    lost.told(told(false, not_found("ContainerStatusUnknown")));
    lost.told(told(true, not_found("ContainerStatusUnknown")));
    let mut again = seen(told(true, runs()));
    again.told(told(true, restarted));
    // By a search, which has seen nothing before.
    let unseen = seen(told(true, not_found("ContainerStatusUnknown")));
    for seen in [lost, again, unseen] {
        assert_eq!(end(&seen), End::Alive);
        assert!(matches!(deleted(seen, Object::Deleted), End::Unproven(_)));
    }
}

#[test]
fn the_container_is_named_also_where_the_last_status_does_not() {
    let mut seen = seen(told(false, runs()));
    seen.told(told(true, not_found("Error")));
    let End::Unproven(why) = deleted(seen, Object::Deleted) else {
        panic!("no proof")
    };
    assert!(why.contains("container containerd://c ended"), "{why}");
}

/// A pod whose server waits for an init container, which has ended so.
fn initialized(deleted: bool, phase: &str, init: &serde_json::Value, exit: i32) -> Facts {
    let mut pod = serde_json::json!({
        "metadata": {"uid": "u"},
        "spec": {"nodeName": "n1", "initContainers": [init], "containers": [{"name": "server"}]},
        "status": {"phase": phase,
            "initContainerStatuses": [{
                "name": "first", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "containerID": "containerd://i", "state": {"terminated": {"exitCode": exit}},
            }],
            "containerStatuses": [{
                "name": "server", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": "PodInitializing"}},
            }]},
    });
    if deleted {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    Facts::of(serde_json::from_value(pod).unwrap())
}

/// Of a pod that never restarts: what comes after it is never started.
#[test]
fn an_init_container_that_fails_is_named_and_its_pod_has_ended() {
    let first = serde_json::json!({"name": "first"});
    let failed = || seen(initialized(false, "Failed", &first, 3));
    let Start::Failed(Failure::Rejected { reason, .. }) = start(&failed()) else {
        panic!("{:?}", start(&failed()))
    };
    assert!(
        reason.contains("`first`") && reason.contains("exit code 3"),
        "{reason}"
    );
    let over = End::Terminated(ExitStatus::Unknown);
    assert_eq!(end(&failed()), over);
    assert_eq!(deleted(failed(), Object::Deleted), End::Gone(INIT_FAILED));
    // Our finalizer keeps it, whoever has deleted it.
    let mut kept = initialized(true, "Failed", &first, 3);
    (kept.kept, kept.finished) = (true, true);
    assert_eq!(end(&seen(kept)), over);
    // One that has succeeded, that may be started again, or whose phase is not known to be final.
    let sidecar = serde_json::json!({"name": "first", "restartPolicy": "Always"});
    for (phase, init, exit) in [
        ("Pending", &first, 0),
        ("Failed", &sidecar, 3),
        ("Pending", &first, 3),
    ] {
        let seen = seen(initialized(false, phase, init, exit));
        assert_eq!(end(&seen), End::Alive, "{phase} {init} {exit}");
        assert!(matches!(deleted(seen, Object::Deleted), End::Unproven(_)));
    }
    // A server that was seen to run is not one that was never started.
    let mut ran = failed();
    ran.ran = true;
    assert_eq!(end(&ran), End::Alive);
}

/// The deletion comes while an init container runs, which leaves politely: the server was not
/// started, and will not be.
#[test]
fn a_server_that_was_deleted_before_its_init_containers_were_done_is_gone() {
    let first = serde_json::json!({"name": "first"});
    let ended = || seen(initialized(true, "Pending", &first, 0));
    assert_eq!(end(&ended()), End::Alive);
    assert_eq!(
        deleted(ended(), Object::Deleted),
        End::Gone(REST_NEVER_STARTED)
    );
    assert!(matches!(
        deleted(ended(), Object::Missing),
        End::Unproven(_)
    ));
    let by_force = || {
        let mut facts = initialized(true, "Pending", &first, 0);
        facts.finished = true;
        seen(facts)
    };
    assert!(matches!(
        deleted(by_force(), Object::Deleted),
        End::Unproven(_)
    ));
    let mut ran = ended();
    ran.ran = true;
    assert!(matches!(deleted(ran, Object::Deleted), End::Unproven(_)));
}

/// A busy kubelet has told of nothing before the deletion: its words for a container that ran are
/// said by one that knows of the deletion, after which it starts none.
#[test]
fn a_kubelet_that_did_not_find_what_it_deletes_has_ended_it() {
    let creating = || {
        let mut status = runs();
        status["state"] = serde_json::json!({"waiting": {"reason": "ContainerCreating"}});
        status["containerID"] = "".into();
        status
    };
    // Its start was told by an event, or by an attach.
    let mut unseen = seen(told(true, creating()));
    (unseen.created, unseen.ran) = (true, true);
    unseen.told(told(true, not_found_in_deletion()));
    assert_eq!(end(&unseen), End::Terminated(ExitStatus::Unknown));
    assert_eq!(deleted(unseen, Object::Deleted), End::Gone(INFERRED));
    // Nothing was told of containers at all.
    let mut silent = seen(Facts {
        deleting: true,
        ..pod(&[])
    });
    silent.told(told(true, not_found_in_deletion()));
    assert_eq!(end(&silent), End::Terminated(ExitStatus::Unknown));
    // A search has seen nothing before.
    let searched = seen(told(true, not_found_in_deletion()));
    assert_eq!(end(&searched), End::Terminated(ExitStatus::Unknown));
    // Without the deletion, or in other words, it is no end; nor where it was lost before.
    let mut lost = seen(told(false, not_found_in_deletion()));
    assert_eq!(end(&lost), End::Alive);
    lost.told(told(true, not_found_in_deletion()));
    assert_eq!(end(&lost), End::Alive);
    let other = seen(told(true, not_found("ContainerStatusUnknown")));
    assert_eq!(end(&other), End::Alive);
}
