//! The supervised init: the program from `init/` of `mcp-guardian`, in a ConfigMap.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::ConfigMap;
use mcp_guardian::init::{NOT_AVAILABLE, PROGRAM};
use mcp_lifecycle_core::backend::ARCHITECTURE;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Kind, Patience};
use crate::error::{ClusterError, Meaning, Result};

pub(crate) const NAME: &str = "mcp-init";
const DIRECTORY: &str = "/.mcp-lifecycle";

pub(crate) fn command(grace_ms: &str) -> Vec<String> {
    let program = format!("{DIRECTORY}/{NAME}");
    vec![program, "--gate".to_owned(), grace_ms.to_owned()]
}

/// Mounts the program into the server's container, the first of the pod.
pub(crate) fn mount(pod: &mut Value) {
    let spec = &mut pod["spec"];
    spec["nodeSelector"]["kubernetes.io/os"] = "linux".into();
    spec["nodeSelector"]["kubernetes.io/arch"] = ARCHITECTURE.into();
    let volume = json!({"name": NAME, "configMap": {"name": map_name(), "defaultMode": 0o555}});
    let mount = json!({"name": NAME, "mountPath": DIRECTORY, "readOnly": true});
    push(&mut spec["volumes"], volume);
    push(&mut spec["containers"][0]["volumeMounts"], mount);
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

/// Makes sure that the ConfigMap with exactly this program exists.
pub(crate) async fn provide(cluster: &Cluster, patience: &Patience) -> Result<()> {
    if PROGRAM.is_empty() {
        return Err(unusable(NOT_AVAILABLE));
    }
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "immutable": true,
        "metadata": {"name": map_name()},
        "binaryData": {NAME: BASE64_STANDARD.encode(PROGRAM)},
    });
    let name = map_name();
    let get = || cluster.get::<ConfigMap>(Kind::ConfigMap, &name);
    let there = match patience.answered(get).await {
        Err(error) if error.meaning == Meaning::Absent => {
            let create = || cluster.create::<IgnoredAny>(Kind::ConfigMap, &map);
            match patience.answered(create).await {
                Err(error) if error.meaning == Meaning::Exists => patience.answered(get).await?,
                created => return created.map(drop),
            }
        }
        there => there?,
    };
    let data = there.binary_data.unwrap_or_default();
    let is_ours = data.get(NAME).is_some_and(|data| data.0 == PROGRAM);
    // A mutable ConfigMap could be changed after this check.
    match is_ours && there.immutable == Some(true) {
        true => Ok(()),
        false => Err(unusable(&format!(
            "the ConfigMap {name} holds another program, or is not immutable; delete it"
        ))),
    }
}

pub(crate) fn unusable(why: &str) -> ClusterError {
    ClusterError::refused(format!("the supervised init cannot be used: {why}"))
}

/// Names the ConfigMap by the program's hash: all hosts of a namespace share it.
fn map_name() -> String {
    // FNV-1a suffices, since `provide` compares the content.
    let hash = PROGRAM
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("{NAME}-{hash:016x}")
}
