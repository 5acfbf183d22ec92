//! Every decision, without a cluster.

use super::*;
use crate::pod::facts::Container;

fn container(name: &str, state: State) -> Container {
    let id = (!matches!(state, State::Waiting { .. })).then(|| format!("containerd://{name}"));
    Container {
        name: name.to_owned(),
        id,
        state,
        restarts: 0,
        goes_first: false,
    }
}

fn waiting_for(reason: &str) -> State {
    State::Waiting {
        reason: reason.to_owned(),
        message: "words".to_owned(),
    }
}

fn terminated(reason: &str) -> State {
    let (reason, message) = (reason.to_owned(), "words".to_owned());
    State::Terminated {
        exit: ExitStatus::Code(3),
        reason,
        message,
    }
}

fn pod(states: &[(&str, State)]) -> Facts {
    Facts {
        uid: "u".to_owned(),
        node: Some("n1".to_owned()),
        phase: "Running".to_owned(),
        expected: states.len().max(1),
        containers: states
            .iter()
            .map(|(name, state)| container(name, state.clone()))
            .collect(),
        ..Facts::default()
    }
}

fn seen(facts: Facts) -> Seen {
    let mut seen = Seen::default();
    seen.told(facts);
    seen
}

fn deleted(mut seen: Seen, object: Object) -> End {
    seen.object = object;
    end(&seen)
}

#[test]
fn a_launch_waits_attaches_or_says_why_not() {
    let starts = |state| start(&seen(pod(&[("server", state)])));
    assert_eq!(start(&Seen::default()), Start::Wait(None));
    let creating = Start::Wait(Some("ContainerCreating".to_owned()));
    assert_eq!(starts(waiting_for("ContainerCreating")), creating);
    assert_eq!(starts(State::Running), Start::Running);
    assert_eq!(starts(terminated("Completed")), Start::Ended);
    let program = Start::Failed(Failure::Program("words".to_owned()));
    assert_eq!(starts(terminated("StartError")), program);
    for reason in ["ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"] {
        let failed = starts(waiting_for(reason));
        assert!(
            matches!(failed, Start::Failed(Failure::Image { .. })),
            "{reason}"
        );
    }
    let failed = starts(waiting_for("CreateContainerConfigError"));
    assert!(matches!(failed, Start::Failed(Failure::Container { .. })));
}

/// Before it is, a kubelet of 1.20 may forget what it is told to delete.
#[test]
fn a_server_is_told_of_when_it_runs_or_nobody_will_say_more() {
    let told = |state| is_told(&seen(pod(&[("server", state)])));
    assert!(!is_told(&Seen::default()) && !told(waiting_for("ContainerCreating")));
    assert!(
        told(State::Running)
            && told(State::Lost { in_deletion: false })
            && told(terminated("Completed"))
    );
    let mut gone = seen(pod(&[("server", waiting_for("ContainerCreating"))]));
    gone.object = Object::Deleted;
    assert!(is_told(&gone));
}

#[test]
fn the_scheduler_and_the_node_are_quoted() {
    let unschedulable = Facts {
        node: None,
        unschedulable: Some("0/1 nodes are available".to_owned()),
        ..pod(&[])
    };
    let expected = Start::Unschedulable("0/1 nodes are available".to_owned());
    assert_eq!(start(&seen(unschedulable)), expected);
    let rejected = Facts {
        phase: "Failed".to_owned(),
        reason: Some("OutOfcpu".to_owned()),
        ..pod(&[])
    };
    let expected = Failure::Rejected {
        reason: "OutOfcpu".to_owned(),
        message: String::new(),
    };
    assert_eq!(start(&seen(rejected.clone())), Start::Failed(expected));
    assert_eq!(end(&seen(rejected)), End::Terminated(ExitStatus::Unknown));
}

#[test]
fn a_launch_does_not_attach_to_what_somebody_deletes() {
    let deleting = Facts {
        deleting: true,
        ..pod(&[("server", State::Running)])
    };
    assert_eq!(start(&seen(deleting)), Start::Failed(Failure::Deleted));
    let mut gone = seen(pod(&[("server", State::Running)]));
    gone.object = Object::Deleted;
    assert_eq!(start(&gone), Start::Failed(Failure::Deleted));
}

#[test]
fn a_proof_takes_the_word_of_the_kubelet_and_the_deletion() {
    let running = || seen(pod(&[("server", State::Running)]));
    let ended = || seen(pod(&[("server", terminated("Completed"))]));
    assert_eq!(end(&running()), End::Alive);
    assert_eq!(end(&ended()), End::Terminated(ExitStatus::Code(3)));
    for object in [Object::Deleted, Object::Missing] {
        assert_eq!(deleted(ended(), object), End::Gone(TERMINATED));
        let End::Unproven(why) = deleted(running(), object) else {
            panic!("404 is no proof")
        };
        assert!(
            why.contains("node n1") && why.contains("containerd://server"),
            "{why}"
        );
    }
    assert!(matches!(
        deleted(Seen::default(), Object::Missing),
        End::Unproven(_)
    ));
}

#[test]
fn another_container_keeps_the_pod_from_being_gone() {
    let both = |other| pod(&[("server", terminated("Completed")), ("sidecar", other)]);
    assert_eq!(
        end(&seen(both(State::Running))),
        End::Server(ExitStatus::Code(3))
    );
    let gone = deleted(seen(both(State::Running)), Object::Deleted);
    assert!(matches!(&gone, End::Unproven(why) if why.contains("containerd://sidecar")));
    // One that the kubelet does not speak of.
    let mut silent = pod(&[("server", terminated("Completed"))]);
    silent.expected = 2;
    assert_eq!(end(&seen(silent)), End::Server(ExitStatus::Code(3)));
}

#[test]
fn what_was_never_started_is_gone_with_its_object() {
    let unplaced = || Facts {
        node: None,
        ..pod(&[])
    };
    assert_eq!(
        deleted(seen(unplaced()), Object::Deleted),
        End::Gone(NEVER_PLACED)
    );
    // It may have been given to a node in between.
    assert!(matches!(
        deleted(seen(unplaced()), Object::Missing),
        End::Unproven(_)
    ));
    let waiting = || pod(&[("server", waiting_for("ErrImagePull"))]);
    let deleting = Facts {
        deleting: true,
        ..waiting()
    };
    // The last that is told of a deletion by force names a time, too, and no grace.
    let by_force = Facts {
        finished: true,
        ..deleting.clone()
    };
    assert!(matches!(
        deleted(seen(by_force), Object::Deleted),
        End::Unproven(_)
    ));
    assert_eq!(
        deleted(seen(deleting.clone()), Object::Deleted),
        End::Gone(NEVER_STARTED)
    );
    assert!(matches!(
        deleted(seen(waiting()), Object::Deleted),
        End::Unproven(_)
    ));
    let given_up = Facts {
        disrupted: true,
        ..deleting
    };
    assert!(matches!(
        deleted(seen(given_up), Object::Deleted),
        End::Unproven(_)
    ));
}

#[test]
fn a_finalizer_keeps_what_is_deleted_by_force_until_the_kubelet_has_spoken() {
    let kept = |state: Option<State>| {
        let states: Vec<_> = state.map(|state| ("server", state)).into_iter().collect();
        let mut seen = seen(pod(&[]));
        seen.told(Facts {
            deleting: true,
            finished: true,
            kept: true,
            ..pod(&states)
        });
        seen
    };
    // The same after an order that leaves its kubelet the time.
    let ordered = || {
        let mut seen = seen(Facts {
            deleting: true,
            kept: true,
            ..pod(&[])
        });
        seen.told(kept(None).last.unwrap());
        seen
    };
    assert_eq!(end(&kept(Some(State::Running))), End::Alive);
    let ended = || kept(Some(terminated("Error")));
    assert_eq!(end(&ended()), End::Terminated(ExitStatus::Code(3)));
    assert_eq!(deleted(ended(), Object::Deleted), End::Gone(TERMINATED));
    // Its kubelet may have started it, and not said so yet.
    assert_eq!(end(&kept(None)), End::Alive);
    // Nobody will say anything of what was never started.
    assert_eq!(end(&ordered()), End::Terminated(ExitStatus::Unknown));
    let mut unplaced = kept(None);
    unplaced.last.as_mut().unwrap().node = None;
    assert_eq!(end(&unplaced), End::Terminated(ExitStatus::Unknown));
    let mut given_up = ordered();
    given_up.last.as_mut().unwrap().disrupted = true;
    assert_eq!(end(&given_up), End::Alive);
    // Of what was created, however the last status looks.
    let mut created = ordered();
    created.created = true;
    assert_eq!(end(&created), End::Alive);
}

#[test]
fn an_eviction_that_drops_the_containers_from_the_status_is_no_proof() {
    let mut seen = seen(pod(&[("server", State::Running)]));
    seen.told(Facts {
        phase: "Failed".to_owned(),
        reason: Some("Evicted".to_owned()),
        deleting: true,
        ..pod(&[])
    });
    assert_eq!(end(&seen), End::Alive);
    // Also where nobody saw it run: the process has its grace yet.
    let mut unseen = seen.clone();
    unseen.created = false;
    assert_eq!(end(&unseen), End::Alive);
    assert!(matches!(deleted(seen, Object::Deleted), End::Unproven(_)));
}

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
