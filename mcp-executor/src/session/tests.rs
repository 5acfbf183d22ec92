//! An end that comes while the daemon is about to leave.

use mcp_launcher_local::LocalLauncher;

use super::super::Daemon;
use super::*;

/// It took the processes out of the table just before the daemon looked there.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_leaves_waits_for_an_end_that_was_faster() {
    let daemon = Daemon::new(Arc::new(LocalLauncher::new()), Limits::default());
    let of = Share::User(0);
    let session = Session::new("s".to_owned(), &daemon.shared, None, of);
    let mut leaving = {
        let table = session.processes.lock();
        let leaves = Arc::clone(&session);
        let leaving = tokio::spawn(async move { leaves.wind_down().await });
        while !session.is_closing() {
            std::thread::yield_now();
        }
        // By now it waits for the table.
        std::thread::sleep(Duration::from_millis(50));
        session.ended.store(true, Ordering::Release);
        drop(table);
        leaving
    };
    let early = tokio::time::timeout(Duration::from_millis(200), &mut leaving).await;
    assert!(early.is_err(), "the end is under way");
    session.finished.cancel();
    let late = tokio::time::timeout(Duration::from_secs(20), leaving).await;
    late.unwrap().unwrap();
}
