//! How long a create whose answer was lost is waited for.

use tokio::time::sleep;

use super::*;
use crate::pod::Lost;

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
