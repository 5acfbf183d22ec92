//! How long a create whose answer was lost is waited for.

use std::sync::Mutex;

use tokio::time::{advance, pause, resume, sleep};

use super::*;
use crate::cluster::scripted::{Api, refused};
use crate::decide::Lost;

fn lost() -> Option<Lost> {
    let words = "no answer".to_owned();
    let refused = false;
    Some(Lost { words, refused })
}

#[tokio::test(start_paused = true)]
async fn a_create_that_nobody_saw_is_given_up_after_its_time() {
    let (_seen, receiver) = channel::channel(Seen::default());
    let begun = Instant::now();
    assert!(!comes_true(receiver).await);
    assert_eq!(begun.elapsed(), LATE_CREATE);
}

#[tokio::test(start_paused = true)]
async fn only_time_in_which_the_cluster_is_watched_counts() {
    let (seen, receiver) = channel::channel(Seen::default());
    seen.send_modify(|seen| seen.lost = lost());
    let outcome = tokio::spawn(comes_true(receiver));
    sleep(LATE_CREATE * 4).await;
    assert!(!outcome.is_finished());
    seen.send_modify(|seen| seen.lost = None);
    sleep(LATE_CREATE / 2).await;
    seen.send_modify(|seen| seen.told(Facts::default()));
    assert!(outcome.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_lost_late_does_not_end_the_wait() {
    let (seen, receiver) = channel::channel(Seen::default());
    let outcome = tokio::spawn(comes_true(receiver));
    sleep(LATE_CREATE / 2).await;
    seen.send_modify(|seen| seen.lost = lost());
    sleep(LATE_CREATE * 2).await;
    assert!(!outcome.is_finished());
    seen.send_modify(|seen| seen.lost = None);
    sleep(LATE_CREATE + Duration::from_secs(1)).await;
    assert!(!outcome.await.unwrap());
}

/// The secret of a launch that has given up, whose create comes true after its removal.
#[tokio::test]
async fn a_secret_that_comes_true_late_is_removed_then() {
    let asks = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&asks);
    let api = Api::start(move |asked| {
        record.lock().unwrap().push(asked.what);
        std::future::ready(refused(404, "NotFound", "it is not there"))
    })
    .await;
    let open = Open::default();
    let refusal = |error| note::<()>(Err(error), &open.secret);
    // Of two attempts the first may come true, whatever is said of the second.
    let create = crate::error::Action {
        verb: "create",
        resource: "secrets",
        namespace: "ns",
        address: "a",
    };
    let unheard = create.unreachable("nobody".to_owned());
    assert!(refusal(unheard).is_err() && refusal(ClusterError::refused("no")).is_err());
    let (cluster, late) = (api.cluster(), open.secret.into_inner());
    let removing = tokio::spawn(async move { remove_secret(&cluster, "s", late).await });
    let asked = || asks.lock().unwrap().len();
    while asked() == 0 {
        sleep(Duration::from_millis(10)).await;
    }
    // Its answer has real time.
    sleep(Duration::from_millis(500)).await;
    assert!(!removing.is_finished());
    pause();
    advance(LATE_CREATE).await;
    resume();
    timeout(Duration::from_secs(30), removing)
        .await
        .unwrap()
        .unwrap();
    let secret = "DELETE /api/v1/namespaces/default/secrets/s";
    assert_eq!(*asks.lock().unwrap(), [secret, secret]);
}
