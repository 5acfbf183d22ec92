//! Every decision, without a cluster.

use super::*;
use crate::facts::Container;

mod status;

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
