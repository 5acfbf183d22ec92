//! Compares a created pod with the request: an admission webhook may change anything. Pure.

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::facts::SERVER;
use crate::{init, labels};

/// Fields that must be as requested, since the server's lifecycle depends on them.
const EXACT: &[&str] = &[
    "/spec/restartPolicy",
    "/spec/terminationGracePeriodSeconds",
    "/spec/shareProcessNamespace",
    "/spec/hostPID",
];

const EXACT_OF_SERVER: &[&str] = &[
    "/command",
    "/args",
    "/workingDir",
    "/stdin",
    "/stdinOnce",
    "/tty",
    "/lifecycle",
    "/restartPolicy",
    "/restartPolicyRules",
];

/// Fields to which items may be added.
const KEPT: &[&str] = &[
    "/metadata/labels",
    "/metadata/ownerReferences",
    "/metadata/finalizers",
    "/spec/volumes",
];
const KEPT_OF_SERVER: &[&str] = &["/envFrom", "/volumeMounts"];
const VOLUMES: [&str; 2] = ["/spec/volumes", "/volumeMounts"];

/// Returns the first field that a webhook changed and must not have.
pub(super) fn changed(asked: &Value, made: &Pod) -> Option<String> {
    let made = serde_json::to_value(made).unwrap_or_default();
    let of_pod = differing(asked, &made, EXACT, KEPT);
    let of_server = || {
        differing(
            server(asked),
            server(&made),
            EXACT_OF_SERVER,
            KEPT_OF_SERVER,
        )
    };
    of_pod.or_else(|| Some(format!("{} of container {SERVER}", of_server()?)))
}

/// Returns whether the launcher's watch, which selects by label, covers a pod.
pub(super) fn is_selected(asked: &Value, made: &Pod) -> bool {
    let made = made.metadata.labels.as_ref();
    let is_kept = |label: &str| {
        let made = made.and_then(|labels| labels.get(label));
        made.map(String::as_str) == asked["metadata"]["labels"][label].as_str()
    };
    is_kept(labels::INSTANCE) && is_kept(labels::ROLE)
}

fn differing(asked: &Value, made: &Value, exact: &[&str], kept: &[&str]) -> Option<String> {
    let field = |value: &Value, path: &str| value.pointer(path).cloned().unwrap_or_default();
    let is_changed = |path: &&str| !is_same(&field(asked, path), &field(made, path));
    let is_lost = |path: &&str| !has(&field(made, path), &ours(path, field(asked, path)));
    let path = exact.iter().copied().find(|path| is_changed(path));
    let path = path.or_else(|| kept.iter().copied().find(|path| is_lost(path)))?;
    Some(path.trim_start_matches('/').replace('/', "."))
}

/// Keeps only the init's volume and mount: the API may rewrite others.
fn ours(path: &str, mut asked: Value) -> Value {
    let items = asked.as_array_mut();
    if let Some(items) = items.filter(|_| VOLUMES.contains(&path)) {
        items.retain(|item| item["name"] == init::NAME);
    }
    asked
}

/// Compares values; the API omits false and empty ones.
fn is_same(asked: &Value, made: &Value) -> bool {
    let is_nothing = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    asked == made || is_nothing(asked) && is_nothing(made)
}

fn has(made: &Value, asked: &Value) -> bool {
    match (made, asked) {
        (Value::Object(made), Value::Object(asked)) => asked
            .iter()
            .all(|(name, asked)| made.get(name).is_some_and(|made| has(made, asked))),
        (Value::Array(made), Value::Array(asked)) => asked
            .iter()
            .all(|asked| made.iter().any(|made| has(made, asked))),
        (made, asked) => is_same(asked, made),
    }
}

fn server(pod: &Value) -> &Value {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let mut containers = containers.into_iter().flatten();
    let server = containers.find(|container| container["name"] == SERVER);
    server.unwrap_or(&Value::Null)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": {"name": "p", "labels": {"a": "1"}, "ownerReferences": [
                {"apiVersion": "v1", "kind": "Lease", "name": "l", "uid": "u"}]},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2,
                "volumes": [{"name": "mcp-init", "configMap": {"name": "m", "defaultMode": 365}}],
                "containers": [{"name": SERVER, "image": "i", "command": ["init", "srv"],
                    "stdin": true, "stdinOnce": true, "tty": false}]},
        })
    }

    fn found(change: impl FnOnce(&mut Value)) -> Option<String> {
        let mut made = pod();
        change(&mut made);
        changed(&pod(), &serde_json::from_value(made).unwrap())
    }

    #[test]
    fn what_is_added_is_no_change() {
        let found = found(|pod| {
            pod["metadata"]["labels"]["sidecar"] = "yes".into();
            pod["spec"]["containers"][0]["image"] = "mirror/i".into();
            pod["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}]);
            let beside = json!({"name": "beside", "command": ["proxy"]});
            let containers = pod["spec"]["containers"].as_array_mut().unwrap();
            containers.insert(0, beside);
            let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
            volumes.insert(0, json!({"name": "more", "emptyDir": {}}));
        });
        assert_eq!(found, None);
    }

    #[test]
    fn what_a_lifecycle_rests_on_is_named_where_it_is_not_as_asked() {
        for (path, value, named) in [
            ("/spec/restartPolicy", json!("Always"), "spec.restartPolicy"),
            (
                "/metadata/ownerReferences",
                json!([]),
                "metadata.ownerReferences",
            ),
            ("/metadata/labels/a", json!("2"), "metadata.labels"),
            ("/spec/volumes/0/configMap/name", json!("x"), "spec.volumes"),
            (
                "/spec/containers/0/command",
                json!(["wrapped", "init"]),
                "command of container server",
            ),
            (
                "/spec/containers/0/stdinOnce",
                json!(false),
                "stdinOnce of container server",
            ),
        ] {
            let found = found(|pod| *pod.pointer_mut(path).unwrap() = value);
            assert_eq!(found.as_deref(), Some(named), "{path}");
        }
        let lifecycle = json!({"preStop": {"exec": {"command": ["sleep", "60"]}}});
        let found = found(|pod| pod["spec"]["containers"][0]["lifecycle"] = lifecycle);
        assert_eq!(found.as_deref(), Some("lifecycle of container server"));
    }
}
