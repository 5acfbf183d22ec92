//! A search against an API server with a garbage collector that is faster than it.

use std::sync::Mutex;

use serde_json::{Value, json};

use super::*;
use crate::cluster::scripted::{Answer, Api, Asked, refused};

const INSTANCE: &str = "0123456789abcdef0123456789abcdef";

fn lease() -> Value {
    json!({"metadata": {"name": labels::lease_name(INSTANCE), "uid": "l", "resourceVersion": "1",
        "labels": labels::of_host(INSTANCE)}, "spec": {"leaseDurationSeconds": 1}})
}

fn pod(version: u64, state: &Value) -> Value {
    let launch = "fedcba9876543210fedcba9876543210";
    let owner = json!([{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "name": labels::lease_name(INSTANCE), "uid": "l"}]);
    json!({"metadata": {"name": labels::pod_name("s", launch), "uid": "p", "ownerReferences": owner,
            "labels": labels::of_launch(INSTANCE, launch, "s"), "resourceVersion": version.to_string()},
        "spec": {"nodeName": "n", "containers": [{"name": "server"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "server", "image": "",
            "imageID": "", "ready": true, "restartCount": 0, "containerID": "containerd://c", "state": state}]}})
}

/// Deletes what a Lease owns with the Lease, before another list is answered.
#[derive(Default)]
struct Collector {
    lease_is_deleted: bool,
    is_listed: bool,
    refuses: bool,
    /// The number of renewals so far, of a host that lives.
    renewals: Option<u64>,
    /// Once, when the pods have been listed.
    is_busy: bool,
}

impl Collector {
    fn answer(&mut self, asked: &Asked) -> Answer {
        let list = |version: u64, items: Value| json!({"metadata": {"resourceVersion": version.to_string()}, "items": items});
        let (method, path) = asked.what.split_once(' ').unwrap();
        let is = |kind: &str| path.split('/').any(|word| word == kind);
        let body = match method {
            "GET" if is("leases") && self.lease_is_deleted => list(30, json!([])),
            "GET" if is("leases") && self.is_listed && std::mem::take(&mut self.is_busy) => {
                return refused(503, "ServiceUnavailable", "etcd is away");
            }
            "GET" if is("leases") => {
                let mut lease = lease();
                if let Some(renewals) = &mut self.renewals {
                    *renewals += 1;
                    lease["metadata"]["resourceVersion"] = renewals.to_string().into();
                }
                list(10, json!([lease]))
            }
            "GET" if asked.query.contains("watch=true") => {
                let told =
                    |version: &str| asked.query.contains(&format!("resourceVersion={version}&"));
                let ended = pod(20, &json!({"terminated": {"exitCode": 137}}));
                let line = |kind: &str| format!("{}\n", json!({"type": kind, "object": ended}));
                match self.lease_is_deleted && told("10") {
                    true => Value::String(line("MODIFIED") + &line("DELETED")),
                    false => Value::String(String::new()),
                }
            }
            "GET" if std::mem::replace(&mut self.is_listed, true) => list(30, json!([])),
            "GET" => list(10, json!([pod(5, &json!({"running": {}}))])),
            "DELETE" if is("leases") && self.refuses => {
                return refused(409, "Conflict", "it was renewed");
            }
            "DELETE" if is("leases") => {
                self.lease_is_deleted = true;
                json!({})
            }
            _ if self.lease_is_deleted => return refused(404, "NotFound", "not there"),
            _ => json!({}),
        };
        (200, body)
    }
}

async fn search(collector: Collector) -> ReapReport {
    let collector = Mutex::new(collector);
    let api = Api::start(move |asked| {
        let answer = collector.lock().unwrap().answer(&asked);
        std::future::ready(answer)
    })
    .await;
    reap(&api.cluster(), "own").await.unwrap()
}

#[tokio::test]
async fn what_the_garbage_collector_ends_at_once_is_proven_and_told() {
    let report = search(Collector::default()).await;
    let told = [&report.ended, &report.failed, &report.spared].map(Vec::len);
    assert_eq!(told, [1, 0, 0], "{report}");
    assert!(report.is_complete(), "{report}");
}

#[tokio::test]
async fn a_server_that_is_busy_between_two_lists_does_not_end_a_search() {
    let report = search(Collector {
        is_busy: true,
        ..Collector::default()
    })
    .await;
    assert_eq!(report.ended.len(), 1, "{report}");
}

#[tokio::test]
async fn a_host_that_renews_in_the_last_moment_keeps_its_pods() {
    let report = search(Collector {
        refuses: true,
        ..Collector::default()
    })
    .await;
    let told = [&report.ended, &report.failed, &report.spared].map(Vec::len);
    assert_eq!(told, [0, 0, 1], "{report}");
}

#[tokio::test]
async fn a_pod_is_no_orphan_while_its_host_is_among_the_living() {
    let report = search(Collector {
        renewals: Some(0),
        ..Collector::default()
    })
    .await;
    let told = [&report.ended, &report.failed, &report.spared].map(Vec::len);
    assert_eq!(told, [0, 0, 1], "{report}");
}
