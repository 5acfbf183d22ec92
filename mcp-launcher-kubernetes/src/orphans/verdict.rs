//! Reads hosts' Leases and the owners of pods. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::{Instant, sleep};

use crate::cluster::Pauses;
use crate::error::{Meaning, Result};
use crate::labels;
use crate::lease::LONGEST;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) instance: String,
    pub(super) uid: String,
    /// Changes with every renewal, independent of clocks.
    pub(super) version: String,
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

/// Poll interval of undecided Leases.
const LOOK: Duration = Duration::from_secs(2);

/// Time limit of the whole observation, enough for a Lease of the longest validity.
const SEARCH: Duration = Duration::from_secs(240);

/// Time limits of a search without responses, or with rejected credentials.
const UNHEARD: Duration = Duration::from_secs(120);
const UNACCEPTED: Duration = Duration::from_secs(20);

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) dead: Vec<Seen>,
    /// The Leases that could not be observed for their whole validity.
    pub(super) undecided: Vec<Seen>,
}

/// Finds the Leases that are not renewed within their validity, counted anew after a slow response.
pub(super) async fn silent<F>(mut leases: impl FnMut() -> F, own: &str) -> Result<Observed>
where
    F: Future<Output = Result<Vec<Result<Seen, String>>>>,
{
    let search = Instant::now();
    let mut begun = search;
    let mut heard = search;
    let mut open: Option<Vec<Seen>> = None;
    let mut observed = Observed::default();
    let mut pauses = Pauses::new();
    loop {
        let asked = Instant::now();
        let now = match leases().await {
            Ok(now) => now,
            Err(error) => {
                let limit = match error.meaning {
                    Meaning::Refused => return Err(error),
                    Meaning::Unaccepted => UNACCEPTED,
                    _ => UNHEARD,
                };
                if heard.elapsed() > limit || search.elapsed() > SEARCH {
                    return Err(error);
                }
                pauses.after(&error).await;
                open = None;
                continue;
            }
        };
        heard = Instant::now();
        let others = now.into_iter().filter_map(Result::ok);
        let now: Vec<Seen> = others.filter(|lease| lease.instance != own).collect();
        if now.is_empty() {
            return Ok(observed);
        }
        if search.elapsed() > SEARCH {
            let dead = &observed.dead;
            let is_dead = |lease: &Seen| dead.iter().any(|dead| dead.uid == lease.uid);
            observed.undecided = now.into_iter().filter(|lease| !is_dead(lease)).collect();
            return Ok(observed);
        }
        let Some(before) = open.take_if(|_| asked.elapsed() <= LOOK) else {
            begun = Instant::now();
            open = Some(now);
            sleep(LOOK).await;
            continue;
        };
        let waited = begun.elapsed().as_secs();
        let mut left = Vec::new();
        for lease in before {
            match was_renewed(&lease, &now) {
                // Deleted by its host or another search, or renewed.
                None | Some(true) => {}
                Some(false) if waited > lease.duration => observed.dead.push(lease),
                Some(false) => left.push(lease),
            }
        }
        if left.is_empty() {
            return Ok(observed);
        }
        open = Some(left);
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod silence_tests {
    use super::*;
    use crate::error::ClusterError;

    const HOST: u64 = 40;

    /// A host's Lease that was renewed so many times.
    fn lease(renewals: u64) -> Seen {
        Seen {
            name: "mcp-host-a".to_owned(),
            instance: "a".to_owned(),
            uid: "u".to_owned(),
            version: renewals.to_string(),
            duration: HOST,
        }
    }

    fn is_dead() -> Observed {
        Observed {
            dead: vec![lease(1)],
            undecided: Vec::new(),
        }
    }

    fn busy() -> ClusterError {
        ClusterError::contended("list leases", "etcd is away")
    }

    /// Searches while the API answers so at each second: who is found dead, and when.
    async fn search(
        answer: impl Fn(u64) -> Result<Vec<Result<Seen, String>>>,
        takes: impl Fn(u64) -> u64,
    ) -> (Result<Observed>, u64) {
        let begun = Instant::now();
        let look = || {
            let asked = begun.elapsed().as_secs();
            let (answer, takes) = (answer(asked), Duration::from_secs(takes(asked)));
            async move {
                sleep(takes).await;
                answer
            }
        };
        let found = silent(look, "own").await;
        (found, begun.elapsed().as_secs())
    }

    fn at_once(_: u64) -> u64 {
        0
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_is_dead_after_its_duration_and_not_before() {
        let (dead, after) = search(|_| Ok(vec![Ok(lease(1))]), at_once).await;
        assert_eq!(dead.unwrap(), is_dead());
        assert!((HOST..HOST + 5).contains(&after), "{after}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_renews_is_known_with_its_next_renewal() {
        let (dead, after) = search(|at| Ok(vec![Ok(lease(at / 10))]), at_once).await;
        assert_eq!(dead.unwrap(), Observed::default());
        assert!(after <= 12, "{after}");
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_api_did_not_answer_is_nobodys_silence() {
        // Nobody can renew from the 4th second to the 60th; the host does 9 s later.
        let answer = |at| match at {
            0..4 => Ok(vec![Ok(lease(1))]),
            4..60 => Err(busy()),
            60..69 => Ok(vec![Ok(lease(1))]),
            _ => Ok(vec![Ok(lease(2))]),
        };
        let (dead, after) = search(answer, at_once).await;
        assert_eq!(dead.unwrap(), Observed::default());
        assert!((69..80).contains(&after), "{after}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_is_nobodys_silence() {
        let answer = |at| match at {
            0..50 => Ok(vec![Ok(lease(1))]),
            _ => Ok(vec![Ok(lease(2))]),
        };
        let takes = |at| if at == 2 { 42 } else { 0 };
        let (dead, after) = search(answer, takes).await;
        assert_eq!(dead.unwrap(), Observed::default());
        assert!((50..60).contains(&after), "{after}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_host_is_found_after_the_api_has_come_back() {
        let answer = |at| match at {
            4..60 => Err(busy()),
            _ => Ok(vec![Ok(lease(1))]),
        };
        let (dead, after) = search(answer, at_once).await;
        assert_eq!(dead.unwrap(), is_dead());
        assert!((60 + HOST..60 + HOST + 15).contains(&after), "{after}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_that_does_not_come_back_ends_the_search() {
        let (found, after) = search(|_| Err(busy()), at_once).await;
        assert!(found.is_err());
        assert!(
            (UNHEARD.as_secs()..UNHEARD.as_secs() + 10).contains(&after),
            "{after}"
        );
    }

    /// Each look takes too long to say that the host could have renewed meanwhile.
    #[tokio::test(start_paused = true)]
    async fn an_api_that_is_always_late_ends_the_search_without_a_verdict() {
        let (found, after) = search(|_| Ok(vec![Ok(lease(1))]), |_| 3).await;
        let found = found.unwrap();
        assert_eq!((found.dead, found.undecided), (vec![], vec![lease(1)]));
        assert!(
            (SEARCH.as_secs()..SEARCH.as_secs() + 10).contains(&after),
            "{after}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_that_answers_every_other_time_ends_the_search() {
        let answer = |at| match at % 20 {
            0..10 => Ok(vec![Ok(lease(1))]),
            _ => Err(busy()),
        };
        let (_, after) = search(answer, at_once).await;
        assert!(
            (SEARCH.as_secs()..SEARCH.as_secs() + 20).contains(&after),
            "{after}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_that_are_not_accepted_end_the_search_soon() {
        let unaccepted = |_| Err(ClusterError::unaccepted("list leases", "a", "Unauthorized"));
        let (found, after) = search(unaccepted, at_once).await;
        assert!(found.is_err());
        assert!(
            (UNACCEPTED.as_secs()..UNACCEPTED.as_secs() + 10).contains(&after),
            "{after}"
        );
    }
}
