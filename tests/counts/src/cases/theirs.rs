//! rmcp's own child client, as its documentation has it.

use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientLifecycleMode, RoleClient, RunningService, serve_client_with_lifecycle};
use rmcp::transport::TokioChildProcess;

use super::{SERVER, WARM_UP, params, program, settled};
use crate::meter::Meter;

type Running = RunningService<RoleClient, ()>;

async fn start() -> Running {
    let command = tokio::process::Command::new(program(SERVER));
    let transport = TokioChildProcess::new(command).unwrap();
    let lifecycle = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    serve_client_with_lifecycle((), transport, lifecycle)
        .await
        .unwrap()
}

pub(super) async fn calls(bytes: usize, turns: usize, meter: &mut Meter) -> String {
    let running = start().await;
    for _ in 0..WARM_UP {
        running.peer().call_tool(params(bytes)).await.unwrap();
    }
    meter.first();
    for _ in 0..turns {
        let params = params(bytes);
        meter
            .turn(async { drop(running.peer().call_tool(params).await.unwrap()) })
            .await;
    }
    meter.last();
    running.cancel().await.unwrap();
    String::new()
}

pub(super) async fn starts(turns: usize, meter: &mut Meter) -> String {
    for _ in 0..WARM_UP {
        start().await.cancel().await.unwrap();
    }
    meter.first();
    for _ in 0..turns {
        let running = meter.turn(settled(start())).await;
        settled(running.cancel()).await.unwrap();
    }
    meter.last();
    String::new()
}

/// The start is over on both sides after a call.
async fn used() -> Running {
    let running = start().await;
    running.peer().call_tool(params(0)).await.unwrap();
    running
}

pub(super) async fn lives(turns: usize, meter: &mut Meter) -> String {
    for _ in 0..WARM_UP {
        used().await.cancel().await.unwrap();
    }
    meter.first();
    for _ in 0..turns {
        let running = meter.turn(used()).await;
        running.cancel().await.unwrap();
    }
    meter.last();
    String::new()
}
