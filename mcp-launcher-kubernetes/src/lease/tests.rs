//! A Lease against an API server that answers as each test says.

use std::sync::Mutex as Record;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio_util::sync::CancellationToken;

use super::*;
use crate::cluster::scripted::{Api, Asked, refused};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

fn lease(version: &str) -> Value {
    json!({"metadata": {"name": "l", "uid": "u", "resourceVersion": version}})
}

fn leases(api: &Api) -> Leases {
    Leases::new(api.cluster(), "a".repeat(32), VALID)
}

type Asks = Arc<Record<Vec<Asked>>>;

fn asked(asks: &Asks, method: &str) -> usize {
    let asks = asks.lock().unwrap();
    let all = asks.iter().filter(|asked| asked.what.starts_with(method));
    all.count()
}

async fn eventually(what: impl Fn() -> bool) {
    let happens = async {
        while !what() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), happens)
        .await
        .expect("it happens");
}

/// The renewal came true, and its answer was lost with the task that waited for it.
#[tokio::test]
async fn a_renewal_that_was_under_way_does_not_keep_the_lease() {
    let version = Arc::new(Record::new(1));
    let deleted = Arc::new(AtomicBool::new(false));
    let (at, gone) = (Arc::clone(&version), Arc::clone(&deleted));
    let api = Api::start(move |asked| {
        let mut version = at.lock().unwrap();
        let answer = match asked.what.split_once(' ').unwrap().0 {
            "POST" => (201, lease("1")),
            "PATCH" => {
                *version += 1;
                (200, lease(&version.to_string()))
            }
            _ if asked.body["preconditions"]["resourceVersion"] == version.to_string() => {
                gone.store(true, Ordering::SeqCst);
                (200, json!({}))
            }
            _ => refused(409, "Conflict", "the object has been modified"),
        };
        std::future::ready(answer)
    })
    .await;
    let held = leases(&api).hold(&Patience::new()).await.unwrap();
    *version.lock().unwrap() += 1;
    Arc::new(held).release().await;
    assert!(deleted.load(Ordering::SeqCst));
}

/// Another Lease of its name is somebody else's.
#[tokio::test]
async fn a_lease_that_was_made_anew_is_left_alone() {
    let asks = Asks::default();
    let record = Arc::clone(&asks);
    let api = Api::start(move |asked| {
        let is_create = asked.what == format!("POST {LEASES}");
        record.lock().unwrap().push(asked);
        std::future::ready(match is_create {
            true => (201, lease("1")),
            false => refused(409, "Conflict", "the uid is another one"),
        })
    })
    .await;
    let held = leases(&api).hold(&Patience::new()).await.unwrap();
    Arc::new(held).release().await;
    assert_eq!((asked(&asks, "DELETE"), asked(&asks, "PATCH")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_create_that_is_cancelled_without_an_answer_leaves_no_lease() {
    let asks = Asks::default();
    let record = Arc::clone(&asks);
    let api = Api::start(move |asked| {
        let is_create = asked.what.starts_with("POST");
        record.lock().unwrap().push(asked);
        std::future::ready(match is_create {
            true => refused(503, "", "etcd is away"),
            false => (200, lease("7")),
        })
    })
    .await;
    let cancelled = CancellationToken::new();
    let patience = Patience::new().until(cancelled.clone());
    let leases = leases(&api);
    let cancel = async {
        sleep(Duration::from_secs(1)).await;
        cancelled.cancel();
    };
    let (held, ()) = tokio::join!(leases.hold(&patience), cancel);
    assert_eq!(held.unwrap_err().case, Case::Cancelled);
    let creates = asked(&asks, "POST");
    assert_eq!(asked(&asks, "DELETE"), 0);
    // Its task has begun to wait.
    sleep(Duration::from_secs(1)).await;
    tokio::time::advance(LATE_CREATE).await;
    // The deletion has real time.
    tokio::time::resume();
    eventually(|| asked(&asks, "DELETE") == 1).await;
    assert_eq!(asked(&asks, "POST"), creates);
    // One that is carried out late does not take what was taken since.
    let asks = asks.lock().unwrap();
    let deletion = asks.last().unwrap();
    let only = json!({"uid": "u", "resourceVersion": "7"});
    assert_eq!(deletion.body["preconditions"], only);
}

/// Of two attempts the first may come true, whatever is said of the second.
#[tokio::test]
async fn a_create_that_was_not_answered_and_is_refused_later_leaves_no_lease() {
    let asks = Asks::default();
    let record = Arc::clone(&asks);
    let api = Api::start(move |asked| {
        let is_create = asked.what.starts_with("POST");
        let mut asks = record.lock().unwrap();
        let is_first = asks.is_empty();
        asks.push(asked);
        std::future::ready(match is_create {
            true if is_first => refused(503, "", "etcd is away"),
            true => refused(403, "Forbidden", "the namespace is being terminated"),
            false => (200, lease("7")),
        })
    })
    .await;
    let failed = leases(&api).hold(&Patience::new()).await.unwrap_err();
    assert_eq!(failed.meaning, Meaning::Refused, "{failed}");
    assert_eq!(asked(&asks, "POST"), 2);
    // Its answers had real time.
    tokio::time::pause();
    sleep(Duration::from_secs(1)).await;
    tokio::time::advance(LATE_CREATE).await;
    tokio::time::resume();
    eventually(|| asked(&asks, "DELETE") == 1).await;
}

/// A deletion that is carried out between a create and what follows from its refusal.
#[tokio::test]
async fn a_lease_that_goes_when_it_is_taken_again_is_made_anew() {
    let asks = Asks::default();
    let record = Arc::clone(&asks);
    let api = Api::start(move |ask| {
        record.lock().unwrap().push(ask.clone());
        let creates = asked(&record, "POST");
        std::future::ready(match ask.what.starts_with("POST") {
            true if creates == 1 => refused(409, "AlreadyExists", "it is there"),
            true => (201, lease("1")),
            false => refused(404, "NotFound", "it is not there"),
        })
    })
    .await;
    leases(&api).hold(&Patience::new()).await.unwrap();
    assert_eq!((asked(&asks, "POST"), asked(&asks, "PATCH")), (2, 1));
}

#[tokio::test]
async fn only_a_pod_of_this_cluster_owns_the_lease() {
    let pods = "GET /api/v1/namespaces/default/pods/";
    let api = Api::start(move |asked| {
        let pod = |uid: &str| (200, json!({"metadata": {"uid": uid}}));
        std::future::ready(match asked.what.strip_prefix(pods) {
            Some("ours") => pod("u"),
            Some("namesake") => pod("another"),
            Some("secret") => refused(403, "Forbidden", "User \"u\" cannot get resource \"pods\""),
            _ => refused(404, "NotFound", "no such pod"),
        })
    })
    .await;
    let cluster = api.cluster();
    let owned = async |name: &str, namespace: &str| {
        let own = Own {
            name: name.to_owned(),
            uid: "u".to_owned(),
            namespace: namespace.to_owned(),
        };
        let owner = owner(&cluster, Some(own), &Patience::new()).await;
        owner.unwrap() != json!([])
    };
    assert!(owned("ours", "default").await);
    assert!(!owned("ours", "other").await);
    for name in ["namesake", "absent", "secret"] {
        assert!(!owned(name, "default").await, "{name}");
    }
}

/// Twenty launches meet an API server that does not answer: each is told within its own time, and
/// not after those before it.
#[tokio::test(start_paused = true)]
async fn launches_that_fail_together_do_so_at_the_same_time() {
    let api = Api::start(|_| std::future::ready(refused(503, "", "etcd is away"))).await;
    let leases = leases(&api);
    let begun = Instant::now();
    let holds = (0..20).map(|_| {
        let leases = leases.clone();
        async move {
            leases
                .hold(&Patience::new())
                .await
                .err()
                .map(|error| error.meaning)
        }
    });
    let failed = futures_util::future::join_all(holds).await;
    let busy = |meaning: &Option<Meaning>| matches!(meaning, Some(Meaning::Busy(_)));
    assert!(failed.iter().all(busy), "{failed:?}");
    // One has 60 s for a server that is busy.
    assert!(
        begun.elapsed() < Duration::from_secs(90),
        "{:?}",
        begun.elapsed()
    );
}

/// One that was cancelled says nothing to those behind it.
#[tokio::test]
async fn a_launch_that_is_cancelled_takes_nobodys_lease() {
    let api = Api::start(|_| std::future::ready((201, lease("1")))).await;
    let leases = leases(&api);
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let patience = (Patience::new().until(cancelled), Patience::new());
    let (first, second) = tokio::join!(leases.hold(&patience.0), leases.hold(&patience.1));
    assert_eq!(first.unwrap_err().case, Case::Cancelled);
    second.unwrap();
}

/// The API server says so once, with the Lease unchanged, where it gave up writing beside others.
#[tokio::test]
async fn a_lease_is_lost_when_the_api_server_refuses_its_renewal_twice_in_a_row() {
    let asks = Asks::default();
    let record = Arc::clone(&asks);
    let patches = AtomicUsize::new(0);
    let api = Api::start(move |asked| {
        let is_patch = asked.what.starts_with("PATCH");
        record.lock().unwrap().push(asked);
        std::future::ready(match is_patch {
            // The second is in time, the last two are in a row.
            true => match patches.fetch_add(1, Ordering::SeqCst) {
                1 => (200, lease("2")),
                _ => refused(409, "Conflict", "the object has been modified"),
            },
            false => (201, lease("1")),
        })
    })
    .await;
    let leases = Leases::new(api.cluster(), "a".repeat(32), Duration::from_secs(4));
    let _held = leases.hold(&Patience::new()).await.unwrap();
    let count = |method| asked(&asks, method);
    eventually(|| count("PATCH") == 4).await;
    assert_eq!(count("POST"), 1);
    let is_lost = || {
        leases
            .0
            .state
            .try_lock()
            .is_ok_and(|state| state.current.is_none())
    };
    eventually(is_lost).await;
}
