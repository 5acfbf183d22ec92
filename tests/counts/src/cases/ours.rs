//! Our side.

use std::sync::Arc;
use std::time::Duration;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::client::{LifecycleClient, ProtocolPreference, ServerConfig};
use mcp_lifecycle_core::fleet::ServerPool;
use mcp_lifecycle_core::launch::{ServerLauncher, ServerSpec};

use super::{SERVER, WARM_UP, params, program, settled};
use crate::meter::Meter;

pub(super) fn config(launcher: &Arc<dyn ServerLauncher>) -> ServerConfig {
    let spec = ServerSpec::builder("echo", program(SERVER)).cwd("/");
    ServerConfig::new(Arc::clone(launcher), spec.build().unwrap())
        .protocol(ProtocolPreference::Modern)
}

async fn start(launcher: &Arc<dyn ServerLauncher>) -> LifecycleClient {
    LifecycleClient::start(config(launcher)).await.unwrap()
}

fn mechanism(client: &LifecycleClient) -> String {
    client.semantics().containment.mechanism.into_owned()
}

pub(super) async fn calls(
    launcher: &Arc<dyn ServerLauncher>,
    bytes: usize,
    turns: usize,
    meter: &mut Meter,
) -> String {
    let client = start(launcher).await;
    for _ in 0..WARM_UP {
        client.call_tool(params(bytes)).await.unwrap();
    }
    meter.first();
    for _ in 0..turns {
        let params = params(bytes);
        meter
            .turn(async { drop(client.call_tool(params).await.unwrap()) })
            .await;
    }
    meter.last();
    let mechanism = mechanism(&client);
    client.shutdown().await.unwrap();
    mechanism
}

pub(super) async fn leases(
    launcher: &Arc<dyn ServerLauncher>,
    turns: usize,
    meter: &mut Meter,
) -> String {
    let pool = ServerPool::builder("counts").build();
    let server = config(launcher);
    for _ in 0..WARM_UP {
        drop(pool.acquire(&server).await.unwrap());
    }
    meter.first();
    for _ in 0..turns {
        meter
            .turn(async { drop(pool.acquire(&server).await.unwrap()) })
            .await;
    }
    meter.last();
    pool.shutdown(Duration::from_secs(60)).await.unwrap();
    String::new()
}

pub(super) async fn starts(local: LocalLauncher, turns: usize, meter: &mut Meter) -> String {
    let launcher: Arc<dyn ServerLauncher> = Arc::new(local);
    let mut held = String::new();
    for _ in 0..WARM_UP {
        start(&launcher).await.shutdown().await.unwrap();
    }
    meter.first();
    for _ in 0..turns {
        let client = meter.turn(settled(start(&launcher))).await;
        held = mechanism(&client);
        settled(client.shutdown()).await.unwrap();
    }
    meter.last();
    held
}

/// The start is over on both sides after a call.
async fn used(launcher: &Arc<dyn ServerLauncher>) -> LifecycleClient {
    let client = start(launcher).await;
    client.call_tool(params(0)).await.unwrap();
    client
}

pub(super) async fn lives(local: LocalLauncher, turns: usize, meter: &mut Meter) -> String {
    let launcher: Arc<dyn ServerLauncher> = Arc::new(local);
    for _ in 0..WARM_UP {
        used(&launcher).await.shutdown().await.unwrap();
    }
    let mut held = String::new();
    meter.first();
    for _ in 0..turns {
        let client = meter.turn(used(&launcher)).await;
        held = mechanism(&client);
        client.shutdown().await.unwrap();
    }
    meter.last();
    held
}
