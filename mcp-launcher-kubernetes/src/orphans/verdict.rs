//! Reads hosts' Leases and the owners of pods. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::labels;
use crate::lease::LONGEST;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) instance: String,
    pub(super) uid: String,
    /// Changes with every renewal, independent of clocks.
    pub(super) version: String,
    /// In seconds.
    pub(super) duration: u64,
}

impl Seen {
    /// Reads a host's Lease. The error is the instance of an unreadable one.
    pub(super) fn of(lease: Lease) -> Option<Result<Self, String>> {
        let instance = label(&lease.metadata, labels::INSTANCE)?;
        Some(Self::read(&instance, lease).ok_or(instance))
    }

    fn read(instance: &str, lease: Lease) -> Option<Self> {
        let duration = lease.spec?.lease_duration_seconds?;
        let name = lease.metadata.name?;
        (name == labels::lease_name(instance)).then_some(())?;
        Some(Self {
            name,
            instance: instance.to_owned(),
            uid: lease.metadata.uid?,
            version: lease.metadata.resource_version?,
            duration: u64::from(duration.max(1).unsigned_abs()).min(LONGEST.as_secs()),
        })
    }
}

/// Returns whether a Lease was renewed between two lists; `None` if it is gone.
pub(super) fn was_renewed(before: &Seen, now: &[Seen]) -> Option<bool> {
    let now = now.iter().find(|now| now.uid == before.uid)?;
    Some(now.version != before.version)
}

/// Returns the instance that owns an object. Labels alone prove nothing: a copy has them, too.
pub(super) fn owner(meta: &ObjectMeta) -> Option<String> {
    let is_id = |id: &String| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let instance = label(meta, labels::INSTANCE).filter(is_id)?;
    let launch = label(meta, labels::LAUNCH).filter(is_id)?;
    let name = meta.name.as_deref()?;
    let ours = name.starts_with("mcp-") && name.ends_with(launch.get(..16)?);
    let lease = labels::lease_name(&instance);
    let owned = meta.owner_references.as_deref().unwrap_or_default();
    let owned = owned
        .iter()
        .any(|owner| owner.kind == "Lease" && owner.name == lease);
    (ours && owned).then_some(instance)
}

fn label(meta: &ObjectMeta, key: &str) -> Option<String> {
    let labels: &BTreeMap<String, String> = meta.labels.as_ref()?;
    labels.get(key).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const INSTANCE: &str = "0123456789abcdef0123456789abcdef";
    const LAUNCH: &str = "fedcba9876543210fedcba9876543210";

    fn pod(name: &str, owner: &str) -> ObjectMeta {
        let labels = labels::of_launch(INSTANCE, LAUNCH, "s");
        let owner = json!([{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": owner, "uid": "u"}]);
        let meta = json!({"name": name, "labels": labels, "ownerReferences": owner});
        serde_json::from_value(meta).unwrap()
    }

    #[test]
    fn labels_alone_make_no_orphan() {
        let ours = pod("mcp-s-fedcba9876543210", "mcp-host-0123456789abcdef");
        assert_eq!(owner(&ours).as_deref(), Some(INSTANCE));
        let copied = pod("copy-of-it", "mcp-host-0123456789abcdef");
        assert_eq!(owner(&copied), None);
        let mut copied = pod("mcp-s-fedcba9876543210", "mcp-host-other");
        assert_eq!(owner(&copied), None);
        copied.owner_references = None;
        assert_eq!(owner(&copied), None);
    }

    #[test]
    fn a_lease_that_cannot_be_read_names_its_host_all_the_same() {
        let lease = |name: &str, spec: serde_json::Value| {
            let labels = json!({ labels::INSTANCE: INSTANCE });
            let meta = json!({"name": name, "uid": "u", "resourceVersion": "1", "labels": labels});
            serde_json::from_value::<Lease>(json!({"metadata": meta, "spec": spec})).unwrap()
        };
        let name = labels::lease_name(INSTANCE);
        let read = Seen::of(lease(&name, json!({"leaseDurationSeconds": 40})));
        assert!(matches!(read, Some(Ok(seen)) if seen.duration == 40));
        let host = Some(Err(INSTANCE.to_owned()));
        assert_eq!(Seen::of(lease(&name, json!({}))), host);
        let spec = json!({"leaseDurationSeconds": 40});
        assert_eq!(Seen::of(lease("another-name", spec)), host);
    }

    #[test]
    fn a_host_that_renews_lives_whatever_its_clock_says() {
        let seen = |uid: &str, version: &str| Seen {
            name: "n".to_owned(),
            instance: INSTANCE.to_owned(),
            uid: uid.to_owned(),
            version: version.to_owned(),
            duration: 40,
        };
        let before = seen("u", "1");
        assert_eq!(was_renewed(&before, &[seen("u", "1")]), Some(false));
        assert_eq!(was_renewed(&before, &[seen("u", "2")]), Some(true));
        assert_eq!(was_renewed(&before, &[seen("v", "3")]), None);
    }
}
