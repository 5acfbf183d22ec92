//! Merges raw pod fields over the options. Pure.

use k8s_openapi::api::core::v1::Pod;
use mcp_lifecycle_core::backend::fields::{invalid, is_named, over};
use mcp_lifecycle_core::backend::options::{LIFECYCLE, OPTION, Ours, SPEC, known, refuse};
use mcp_lifecycle_core::launch::SpecError;
use serde_json::{Map, Value};

use crate::facts::SERVER;

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

pub(super) fn merge(mut pod: Value, patch: &Map<String, Value>) -> Result<Value, SpecError> {
    refuse("pod", patch, OURS)?;
    let spec = patch.get("spec");
    if spec.is_some_and(|spec| !spec.is_object()) {
        return Err(wrong("`spec` has to be an object".to_owned()));
    }
    let containers = spec.and_then(|spec| spec.get("containers"));
    if containers.is_some_and(|list| !list.as_array().is_some_and(|list| is_named(list))) {
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
        if container["name"] == SERVER
            && let Some(container) = container.as_object()
        {
            refuse("pod", container, OURS_OF_SERVER)?;
        }
    }
    if let Some(pod) = pod.as_object_mut() {
        over(pod, patch.clone());
    }
    known::<Pod>("pod", &pod, pod.clone())?;
    Ok(pod)
}

fn wrong(problem: String) -> SpecError {
    invalid("pod", problem)
}
