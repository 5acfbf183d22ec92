//! The verdict on a pod: whose it is, and whether its host lives. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::labels;
use crate::lease::LONGEST;

/// A host's Lease at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) instance: String,
    pub(super) uid: String,
    /// Changes with every renewal, whatever clock the host has.
    pub(super) version: String,
    /// In seconds.
    pub(super) duration: u64,
}

impl Seen {
    /// Sight of a Lease that names a host; of one that cannot be read, the host alone.
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

/// Returns whether a Lease was renewed, or replaced, between two looks.
pub(super) fn was_renewed(before: &Seen, now: &[Seen]) -> Option<bool> {
    let now = now.iter().find(|now| now.uid == before.uid)?;
    Some(now.version != before.version)
}

/// Verdict on a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its host is dead, or there is no Lease of its host any more.
    Orphan,
    /// Its host lives.
    Spared,
    /// It only looks like one of a host's.
    Stranger,
}

/// Judges a pod by the instance that owns it. `living` are those whose Leases are there, and were
/// not found dead: looked at after the pod was, for a host takes its Lease before it creates.
pub(super) fn judge(owner: Option<&str>, living: &[&str]) -> Verdict {
    match owner {
        None => Verdict::Stranger,
        Some(owner) if living.contains(&owner) => Verdict::Spared,
        Some(_) => Verdict::Orphan,
    }
}

/// The instance that owns an object: labels alone can be anybody's, as in a copy of a pod.
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

    fn judged(pod: &ObjectMeta, living: &[&str]) -> Verdict {
        judge(owner(pod).as_deref(), living)
    }

    #[test]
    fn a_pod_is_an_orphan_when_its_host_is_not_among_the_living() {
        let pod = pod("mcp-s-fedcba9876543210", "mcp-host-0123456789abcdef");
        assert_eq!(judged(&pod, &[]), Verdict::Orphan);
        assert_eq!(judged(&pod, &["other"]), Verdict::Orphan);
        assert_eq!(judged(&pod, &[INSTANCE]), Verdict::Spared);
    }

    #[test]
    fn labels_alone_make_no_orphan() {
        let copied = pod("copy-of-it", "mcp-host-0123456789abcdef");
        assert_eq!(judged(&copied, &[]), Verdict::Stranger);
        let mut copied = pod("mcp-s-fedcba9876543210", "mcp-host-other");
        assert_eq!(judged(&copied, &[]), Verdict::Stranger);
        copied.owner_references = None;
        assert_eq!(judged(&copied, &[]), Verdict::Stranger);
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
