//! The end that an owner asks for.

use std::sync::Arc;

use tokio::time::timeout;

use crate::failure::{Check, Failure, ensure};
use crate::stage::Stage;

/// How many callers end a server at once.
const CALLERS: usize = 10;

pub(super) async fn graceful(stage: &Stage) -> Check {
    let mut server = stage.start().await?;
    let _drains = server.drain();
    server
        .terminate(&stage.fixture.policy(stage.limit()))
        .await?;
    stage.all_dead_now().await
}

pub(super) async fn concurrent(stage: &Stage) -> Check {
    let mut server = stage.start().await?;
    let _drains = server.drain();
    let server = Arc::new(server);
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        let (server, policy) = (Arc::clone(&server), stage.fixture.policy(stage.limit()));
        callers.push(tokio::spawn(async move { server.terminate(&policy).await }));
    }
    let mut reports = Vec::new();
    for caller in callers {
        reports.push(caller.await??);
    }
    stage.all_dead_now().await?;
    ensure(
        reports
            .iter()
            .all(|report| Arc::ptr_eq(report, &reports[0])),
        || "callers of one termination got different reports".to_owned(),
    )
}

pub(super) async fn leader_exits(stage: &Stage) -> Check {
    let mut server = stage.start().await?;
    let _drains = server.drain();
    if !stage.fixture.exits_on_call() {
        server.say_exit(stage.limit()).await?;
    }
    if timeout(stage.limit(), server.terminator.exited())
        .await
        .is_err()
    {
        return Err(Failure::new("the exit of the main process is not noticed"));
    }
    server
        .terminate(&stage.fixture.policy(stage.limit()))
        .await?;
    stage.all_dead_now().await
}
