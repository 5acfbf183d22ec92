//! Processes and the table that they stand in.

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher, ServerSpec};
use serde_json::json;
use tokio::sync::Semaphore;

use super::*;
use crate::origin::Share;
use crate::session::Slot;
use crate::{Daemon, Limits};

fn session() -> Arc<Session> {
    let daemon = Daemon::new(Arc::new(LocalLauncher::new()), Limits::default());
    let of = Share::User(0);
    Session::new("s".to_owned(), &daemon.shared, None, of)
}

/// A process of this session, which is not in its table.
async fn launched(session: &Arc<Session>) -> Arc<Process> {
    let spec = ServerSpec::builder("p", "/bin/cat").cwd("/").build();
    let (spec, context) = (spec.unwrap(), LaunchContext::new());
    let launched = LocalLauncher::new().launch(&spec, &context).await.unwrap();
    let params = json!({"processId": "p", "argv": ["/bin/cat"], "cwd": "/", "pipeStdin": true});
    let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let params = serde_json::from_value(params).unwrap();
    Process::adopt(&params, launched, session, place).0
}

#[test]
fn a_place_that_is_taken_outlives_the_session() {
    let daemon = Daemon::new(Arc::new(LocalLauncher::new()), Limits::default());
    let places = |of: Share| {
        let session = Session::new("s".to_owned(), &daemon.shared, None, of);
        Arc::clone(&session.portion.account.places)
    };
    let taken = places(Share::User(0)).try_acquire_owned().unwrap();
    assert_eq!(places(Share::User(0)).available_permits(), 4095);
    assert_eq!(places(Share::Open).available_permits(), 4096);
    drop(taken);
    assert_eq!(places(Share::User(0)).available_permits(), 4096);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_forgotten_late_takes_no_other_s_place() {
    let session = session();
    let (first, second) = (launched(&session).await, launched(&session).await);
    let slot = Slot::Running(Arc::clone(&second));
    session.processes.lock().insert("p".to_owned(), slot);
    session.remove(&first);
    assert!(
        session
            .process("p")
            .is_some_and(|it| Arc::ptr_eq(&it, &second))
    );
    // So that the session ends it.
    session.end(EndReason::Shutdown).await;
    assert!(second.terminator.gone().await.is_ok());
    first
        .end(&TerminationPolicy::immediate(), EndReason::Shutdown)
        .await;
    assert!(first.terminator.gone().await.is_ok());
}
