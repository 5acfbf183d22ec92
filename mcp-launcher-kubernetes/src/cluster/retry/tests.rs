//! Servers that are busy, or do not answer, for ever: in virtual time.

use std::sync::{Arc, Mutex};

use kube::core::Status;

use super::*;
use crate::error::{Action, Case};

const ACTION: Action<'static> = Action {
    verb: "create",
    resource: "pods",
    namespace: "ns",
    address: "a",
};

fn error(code: u16) -> ClusterError {
    ACTION.refused(Status::failure(&format!("no {code}"), "").with_code(code))
}

fn unheard() -> ClusterError {
    ACTION.unreachable("nobody".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_busy_is_given_up_and_its_words_are_told_once() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let (begun, tell) = (Instant::now(), Arc::clone(&told));
    let patience =
        Patience::new().telling(move |words| tell.lock().unwrap().push(words.to_owned()));
    let answer: Result<(), _> = patience.answered(async || Err(error(503))).await;
    assert!(answer.is_err());
    assert_eq!(begun.elapsed(), Patience::BUSY);
    assert_eq!(
        *told.lock().unwrap(),
        ["failed to create pods: no 503 (HTTP 503)"]
    );
}

#[tokio::test(start_paused = true)]
async fn one_time_is_for_all_requests_together() {
    let patience = Patience::new();
    let begun = Instant::now();
    let mut asked = 0;
    // Half of the time is spent for the first, which is answered in the end.
    let first = patience.answered(|| {
        asked += 1;
        let answer = if asked == 1 { Err(unheard()) } else { Ok(()) };
        async {
            sleep(Patience::SILENT / 2).await;
            answer
        }
    });
    first.await.unwrap();
    let second: Result<(), _> = patience.answered(async || Err(unheard())).await;
    assert_eq!(second.unwrap_err().meaning, Meaning::Unheard);
    // What was answered does not count.
    assert_eq!(begun.elapsed(), Patience::SILENT * 3 / 2);
    let third: Result<(), _> = patience.answered(async || Err(unheard())).await;
    assert!(third.is_err());
    assert_eq!(begun.elapsed(), Patience::SILENT * 3 / 2);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_cancelled_is_not_interrupted_and_is_the_last() {
    let cancelled = CancellationToken::new();
    let patience = Patience::new().until(cancelled.clone());
    let (mut asked, begun) = (0, Instant::now());
    let asking: Result<(), _> = patience
        .answered(|| {
            asked += 1;
            let cancel = (asked == 3).then(|| cancelled.clone());
            async move {
                if let Some(cancel) = cancel {
                    cancel.cancel();
                    sleep(Duration::from_secs(1)).await;
                }
                Err(error(429))
            }
        })
        .await;
    assert_eq!(asking.unwrap_err().case, Case::Cancelled);
    assert_eq!(
        (asked, begun.elapsed()),
        (3, Duration::from_millis(50 + 100 + 1000))
    );
}
