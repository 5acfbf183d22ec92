//! Launches whose Lease is not created at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::{sleep, timeout};

use super::*;
use crate::cluster::scripted::{Api, refused};

fn spec() -> ServerSpec {
    let spec = PodOptions::new("image").init(Init::None);
    spec.command("s", "cat").build().unwrap()
}

#[tokio::test]
async fn a_launch_tells_what_it_waits_for() {
    let busy = async |_| refused(503, "ServiceUnavailable", "etcd is away");
    let api = Api::start(busy).await;
    let launcher = KubernetesLauncher::builder().namespace("default");
    let launcher = launcher.kubeconfig(api.kubeconfig()).build().unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let context = LaunchContext::new().with_progress(move |step| {
        let _ = tell.send(step.what.clone());
    });
    let spec = spec();
    tokio::select! {
        launched = launcher.launch(&spec, &context) => panic!("{launched:?}"),
        told = timeout(Duration::from_secs(20), told.recv()) => {
            let told = told.expect("it is told").unwrap();
            assert!(told.starts_with("mcp-s-") && told.contains("etcd is away"), "{told}");
        }
    }
}

/// The watch selects by the label, and so tells nothing of such a pod.
#[tokio::test]
async fn a_pod_that_is_created_without_its_labels_is_ended_and_its_lease_given_back() {
    let ended = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let count = Arc::clone(&ended);
    let api = Api::start(move |asked| {
        let [pods, leases] = &*count;
        let (method, path) = asked.what.split_once(' ').unwrap();
        let meta = json!({"name": "n", "uid": "u", "resourceVersion": "1"});
        std::future::ready(match method {
            "GET" if path.contains("/pods/") => match pods.load(Ordering::SeqCst) {
                0 => (200, json!({"metadata": meta})),
                _ => refused(404, "NotFound", "not found"),
            },
            "GET" if asked.query.contains("watch=true") => (200, json!("")),
            "GET" => (200, json!({"metadata": meta, "items": []})),
            "DELETE" if path.contains("/leases/") => {
                leases.fetch_add(1, Ordering::SeqCst);
                (200, json!({}))
            }
            "DELETE" if path.contains("/pods/") => {
                pods.fetch_add(1, Ordering::SeqCst);
                (200, json!({}))
            }
            _ => (201, json!({"metadata": meta})),
        })
    })
    .await;
    let launcher = KubernetesLauncher::builder().namespace("default");
    let launcher = launcher.kubeconfig(api.kubeconfig()).build().unwrap();
    let (spec, context) = (spec(), LaunchContext::new());
    let launched = timeout(Duration::from_secs(20), launcher.launch(&spec, &context));
    let failed = launched.await.expect("a launch in time").unwrap_err();
    let text = mcp_lifecycle_core::launch::ErrorChain(&failed).to_string();
    assert!(text.contains("has changed the pod's"), "{text}");
    // Within the launch, for nobody has to be waited for.
    let [pods, leases] = [&ended[0], &ended[1]].map(|count| count.load(Ordering::SeqCst));
    assert_eq!((pods, leases), (1, 1));
}

#[tokio::test]
async fn a_launch_that_is_cancelled_while_its_lease_is_created_leaves_none() {
    let leases = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let count = Arc::clone(&leases);
    let api = Api::start(move |asked| {
        let count = Arc::clone(&count);
        async move {
            let [created, deleted] = &*count;
            if asked.what.starts_with("POST") {
                assert!(asked.what.ends_with("/leases"), "{asked:?}");
                created.fetch_add(1, Ordering::SeqCst);
                sleep(Duration::from_secs(1)).await;
            }
            if asked.what.starts_with("DELETE") {
                deleted.fetch_add(1, Ordering::SeqCst);
            }
            let meta = json!({"name": "l", "uid": "u", "resourceVersion": "1"});
            (200, json!({"metadata": meta}))
        }
    })
    .await;
    let launcher = KubernetesLauncher::builder().namespace("default");
    let launcher = launcher.kubeconfig(api.kubeconfig()).build().unwrap();
    let spec = PodOptions::new("image")
        .init(Init::None)
        .command("s", "cat");
    let (spec, context) = (spec.build().unwrap(), LaunchContext::new());
    let [created, deleted] = &*leases;
    let happens = async |what: &AtomicU32| {
        while what.load(Ordering::SeqCst) == 0 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        launched = launcher.launch(&spec, &context) => panic!("{launched:?}"),
        () = happens(created) => {}
    }
    let ended = timeout(Duration::from_secs(20), happens(deleted)).await;
    ended.expect("the Lease is deleted");
}
