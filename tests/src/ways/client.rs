//! The end of a client: with a call in flight, or before it was ready.

use std::sync::Arc;

use mcp_lifecycle_core::client::{LifecycleClient, ServerConfig, StartError};
use rmcp::model::CallToolRequestParams;
use tokio::time::timeout;

use crate::failure::{Check, Failure, ensure};
use crate::fixture::Serves;
use crate::stage::Stage;

pub(super) async fn in_flight(stage: &Stage) -> Check {
    // A server that never answers takes all of the time there is.
    let startup = match stage.fixture.serves {
        Serves::No => stage.limit() / 10,
        Serves::Yes | Serves::Perhaps => stage.limit(),
    };
    let started = LifecycleClient::builder(
        ServerConfig::new(Arc::clone(&stage.subject.launcher), stage.spec()?)
            .startup_timeout(startup)
            .termination(stage.fixture.policy(stage.limit())),
    )
    .start()
    .await;
    match (started, stage.fixture.serves) {
        (Err(error), Serves::No | Serves::Perhaps) => failed_start(stage, error).await,
        (Err(error), Serves::Yes) => Err(error.into()),
        (Ok(client), Serves::Yes) => shut_down_during_a_call(stage, client).await,
        (Ok(client), Serves::Perhaps) => {
            client.shutdown().await?;
            stage.all_dead_now().await
        }
        (Ok(_), Serves::No) => Err(Failure::new("a start that must fail did not")),
    }
}

async fn failed_start(stage: &Stage, error: StartError) -> Check {
    let context = error.context();
    match &context.cleanup {
        Some(Err(leak)) => Err(leak.clone().into()),
        // A launch that was cut short is undone when it comes true: nobody has claimed that it has.
        None if !context.unfinished.is_empty() => stage.all_dead().await,
        Some(Ok(_)) | None => stage.all_dead_now().await,
    }
}

async fn shut_down_during_a_call(stage: &Stage, client: LifecycleClient) -> Check {
    let peer = client.peer().clone();
    let mut call =
        tokio::spawn(async move { peer.call_tool(CallToolRequestParams::new("block")).await });
    if !stage.fixture.exits_on_call() {
        let process = stage.listener.accept("server", stage.limit()).await?;
        let event = stage.fixture.tells.unwrap_or("blocking");
        process.event(event, stage.limit()).await?;
        client.shutdown().await?;
        stage.all_dead_now().await?;
    }
    // A call whose server has died fails without our help.
    match timeout(stage.limit(), &mut call).await {
        Ok(result) => ensure(result?.is_err(), || "the call did not fail".to_owned())?,
        Err(_) => return Err(Failure::new("the call outlives its server")),
    }
    client.shutdown().await?;
    stage.all_dead_now().await
}
