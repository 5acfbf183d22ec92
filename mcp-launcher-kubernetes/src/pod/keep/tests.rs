//! Which answers to a deletion are the last.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use super::*;
use crate::cluster::scripted::{Answer, Api, refused};

/// What is asked about a pod whose changes are conflicts, of which a look says this.
async fn asked_of(there: Answer) -> Vec<String> {
    let asks = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&asks);
    let api = Api::start(move |asked| {
        let (method, _) = asked.what.split_once(' ').unwrap();
        record.lock().unwrap().push(method.to_owned());
        std::future::ready(match method {
            "GET" => there.clone(),
            _ => refused(409, "Conflict", "another one"),
        })
    })
    .await;
    let order = Order {
        name: "p",
        uid: "u",
        grace: 0,
        kept: true,
    };
    let cluster = api.cluster();
    let ordering = order_deletion(&cluster, order, None, |_| {});
    timeout(Duration::from_secs(60), ordering)
        .await
        .expect("an end of the questions");
    std::mem::take(&mut *asks.lock().unwrap())
}

#[tokio::test]
async fn a_conflict_is_an_answer_where_the_pod_has_gone() {
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "another"}});
    for there in [(200, pod), refused(404, "NotFound", "it is not there")] {
        assert_eq!(asked_of(there).await, ["DELETE", "GET", "PATCH", "GET"]);
    }
}
