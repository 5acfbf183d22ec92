//! Merges raw pod fields over the options. Pure.

use k8s_openapi::api::core::v1::Pod;
use mcp_lifecycle_core::backend::fields::invalid;
use mcp_lifecycle_core::backend::options::{LIFECYCLE, OPTION, Ours, SPEC, known, refuse};
use mcp_lifecycle_core::launch::SpecError;
use serde_json::{Map, Value};

use crate::facts::SERVER;

/// Fields of a pod that cannot be set here, and why.
const OURS: Ours = &[
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

const OURS_OF_SERVER: Ours = &[
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
    refuse("pod", patch, OURS)?;
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
        refuse("pod", container, OURS_OF_SERVER)?;
    }
    over(&mut pod, &Value::Object(patch.clone()));
    known::<Pod>("pod", &pod, pod.clone())?;
    Ok(pod)
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

fn wrong(problem: String) -> SpecError {
    invalid("pod", problem)
}
