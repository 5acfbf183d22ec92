//! Merges raw pod fields over the options. Pure.

use k8s_openapi::api::core::v1::Pod;
use mcp_lifecycle_core::backend::fields::{self, invalid};
use mcp_lifecycle_core::launch::SpecError;
use serde_json::{Map, Value};

use crate::facts::SERVER;
use crate::labels;

const OPTION: &str = "the launcher's option of that name sets it";
const SPEC: &str = "the server's specification sets it";
const LIFECYCLE: &str = "the server's lifecycle rests on it";

/// Fields of a pod that cannot be set here, and why.
const OURS: &[(&str, &str)] = &[
    ("kind", LIFECYCLE),
    ("status", LIFECYCLE),
    ("metadata.name", LIFECYCLE),
    ("metadata.generateName", LIFECYCLE),
    ("metadata.namespace", OPTION),
    ("metadata.labels", OPTION),
    ("metadata.ownerReferences", LIFECYCLE),
    ("metadata.finalizers", LIFECYCLE),
    ("spec.restartPolicy", LIFECYCLE),
    ("spec.terminationGracePeriodSeconds", LIFECYCLE),
    // In a shared namespace the exit of process 1 does not end the others.
    ("spec.shareProcessNamespace", LIFECYCLE),
    ("spec.hostPID", LIFECYCLE),
];

const OURS_OF_SERVER: &[(&str, &str)] = &[
    ("image", OPTION),
    ("command", SPEC),
    ("args", SPEC),
    ("workingDir", SPEC),
    ("env", SPEC),
    ("envFrom", SPEC),
    ("stdin", LIFECYCLE),
    ("stdinOnce", LIFECYCLE),
    ("tty", LIFECYCLE),
    ("lifecycle", LIFECYCLE),
];

/// Merges these fields into the pod: objects, and lists of named items by name.
pub(super) fn merge(mut pod: Value, patch: &Map<String, Value>) -> Result<Value, SpecError> {
    for (path, why) in OURS {
        if fields::set_at(patch, path).is_some() {
            return Err(wrong(format!("`{path}` cannot be set here: {why}")));
        }
    }
    let spec = patch.get("spec");
    if spec.is_some_and(|spec| !spec.is_object()) {
        return Err(wrong("`spec` has to be an object".to_owned()));
    }
    let containers = spec.and_then(|spec| spec.get("containers"));
    let named = |list: &Value| {
        let list = list.as_array();
        list.is_some_and(|list| list.iter().all(|item| name_of(item).is_some()))
    };
    if containers.is_some_and(|containers| !named(containers)) {
        let problem = "`spec.containers` has to be a list of containers with names";
        return Err(wrong(problem.to_owned()));
    }
    for container in containers.and_then(Value::as_array).into_iter().flatten() {
        for field in ["restartPolicy", "restartPolicyRules"] {
            if container.get(field).is_some() {
                let problem = format!("`{field}` of a container cannot be set here: {LIFECYCLE}");
                return Err(wrong(problem));
            }
        }
        let Some(container) = container.as_object() else {
            continue;
        };
        if name_of_map(container) != Some(SERVER) {
            continue;
        }
        for (path, why) in OURS_OF_SERVER {
            if fields::set_at(container, path).is_some() {
                let problem = format!("`{path}` of container `{SERVER}` cannot be set here: {why}");
                return Err(wrong(problem));
            }
        }
    }
    over(&mut pod, &Value::Object(patch.clone()));
    check(&pod)?;
    Ok(pod)
}

/// Rejects unknown fields, which the API server would drop silently.
fn check(pod: &Value) -> Result<(), SpecError> {
    let typed: Pod = serde_json::from_value(pod.clone()).map_err(|e| wrong(e.to_string()))?;
    let kept = serde_json::to_value(&typed).map_err(|e| wrong(e.to_string()))?;
    match fields::missing(pod, &kept) {
        Some(path) => Err(wrong(format!("the API's pod has no `{path}`"))),
        None => Ok(()),
    }
}

fn over(whole: &mut Value, patch: &Value) {
    match (whole, patch) {
        (Value::Object(whole), Value::Object(patch)) => {
            for (name, patch) in patch {
                over(whole.entry(name.clone()).or_insert(Value::Null), patch);
            }
        }
        (Value::Array(whole), Value::Array(patch))
            if patch.iter().all(|item| name_of(item).is_some()) =>
        {
            for item in patch {
                let same = whole
                    .iter_mut()
                    .find(|known| name_of(known) == name_of(item));
                match same {
                    Some(known) => over(known, item),
                    None => whole.push(item.clone()),
                }
            }
        }
        (whole, patch) => *whole = patch.clone(),
    }
}

fn name_of(item: &Value) -> Option<&str> {
    item.as_object().and_then(name_of_map)
}

fn name_of_map(item: &Map<String, Value>) -> Option<&str> {
    item.get("name").and_then(Value::as_str)
}

/// Rejects labels that are reserved for this crate.
pub(super) fn reserved<'a>(mut keys: impl Iterator<Item = &'a String>) -> Result<(), SpecError> {
    match keys.find(|key| key.starts_with(labels::PREFIX)) {
        Some(key) => {
            let prefix = labels::PREFIX;
            let problem =
                format!("`{key}`: labels that begin with {prefix} are set by the launcher");
            Err(invalid("labels", problem))
        }
        None => Ok(()),
    }
}

fn wrong(problem: String) -> SpecError {
    invalid("pod", problem)
}
