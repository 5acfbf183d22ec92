//! Refusals of an API server, by its words.

use super::*;

fn refused(code: u16, message: &str) -> ClusterError {
    let action = Action {
        verb: "create",
        resource: "pods",
        namespace: "ns",
        address: "a",
    };
    let mut status = Status::failure(message, "");
    status.code = code;
    action.refused(status)
}

#[test]
fn a_missing_right_names_verb_and_resource() {
    let words = r#"pods is forbidden: User "u" cannot create resource "pods""#;
    let text = refused(403, words).to_string();
    assert!(
        text.contains("no right to create pods in namespace ns"),
        "{text}"
    );
    assert!(
        text.contains("verbs: [create], resources: [pods]"),
        "{text}"
    );
}

#[test]
fn quota_and_admission_are_told_from_rights() {
    let words = r#"pods "p" is forbidden: exceeded quota: q, requested: pods=1"#;
    assert_eq!(refused(403, words).case, Case::Quota);
    for words in [
        r#"admission webhook "w" denied the request: no"#,
        r#"pods "p" is forbidden: violates PodSecurity "restricted:latest""#,
    ] {
        assert_eq!(refused(403, words).case, Case::Admission);
    }
    assert_eq!(refused(422, "invalid").case, Case::Admission);
}

#[test]
fn what_looks_at_a_pod_after_the_authorizer_is_no_missing_right() {
    for words in [
        r#"pods "p" is forbidden: minimum cpu usage per Container is 100m, but request is 50m"#,
        r#"pods "p" is forbidden: error looking up service account ns/x: serviceaccount "x" not found"#,
        r#"pods "p" is forbidden: unable to create new content in namespace ns because it is being terminated"#,
        r#"pods "p" is forbidden: no PriorityClass with name x was found"#,
    ] {
        let error = refused(403, words);
        assert_eq!(error.case, Case::Admission, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.meaning, Meaning::Refused);
    }
    let other = r#"users "v" is forbidden: User "u" cannot impersonate resource "users""#;
    let text = refused(403, other).to_string();
    assert!(text.contains("no right to impersonate users"), "{text}");
}

#[test]
fn credentials_that_are_not_accepted_are_told_and_may_be_renewed() {
    let error = refused(401, "Unauthorized");
    assert!(
        error.to_string().contains("credentials do not hold"),
        "{error}"
    );
    assert_eq!(error.meaning, Meaning::Unaccepted);
}

#[test]
fn only_what_already_exists_is_there() {
    let refused = |verb, reason: &str| {
        let action = Action {
            verb,
            resource: "pods",
            namespace: "ns",
            address: "a",
        };
        action.refused(Status::failure("words", reason).with_code(409))
    };
    let meaning = |verb, reason| refused(verb, reason).meaning;
    assert_eq!(meaning("create", "AlreadyExists"), Meaning::Exists);
    assert_eq!(meaning("create", "Conflict"), Meaning::Busy(Duration::ZERO));
    assert_eq!(meaning("delete", "Conflict"), Meaning::Conflict);
}

#[test]
fn a_busy_server_is_no_failure() {
    let busy = Meaning::Busy(Duration::ZERO);
    assert_eq!(refused(429, "too many").meaning, busy);
    assert_eq!(refused(503, "etcd").meaning, busy);
    assert_eq!(refused(404, "no").meaning, Meaning::Absent);
    assert_eq!(refused(403, "no").meaning, Meaning::Refused);
}
