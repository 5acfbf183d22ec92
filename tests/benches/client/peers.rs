//! The two sides: our client, and rmcp's own child process transport.

use std::sync::Arc;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::client::{
    LifecycleClient, LifecyclePeer, ProtocolPreference, ServerConfig,
};
use mcp_lifecycle_core::launch::ServerSpec;
use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, RoleClient, RunningService, serve_client_with_lifecycle};
use rmcp::transport::TokioChildProcess;
use serde_json::json;

const SERVER: &str = env!("CARGO_BIN_EXE_mcp-echo");

/// What a side must be able to do.
pub(crate) trait Peer: Send + Sync + 'static {
    type Connection: Send + 'static;
    type Caller: Send + 'static;

    const NAME: &'static str;

    fn connect(&self) -> impl Future<Output = Self::Connection> + Send;
    /// A small call, or one for a result of this many bytes.
    async fn call(&self, connection: &Self::Connection, bytes: usize);
    fn caller(&self, connection: &Self::Connection) -> Self::Caller;
    fn call_by(caller: &Self::Caller) -> impl Future<Output = ()> + Send;
    fn close(&self, connection: Self::Connection) -> impl Future<Output = ()> + Send;
}

fn params(bytes: usize) -> CallToolRequestParams {
    let (name, arguments) = match bytes {
        0 => ("echo", json!({"text": "hello"})),
        bytes => ("blob", json!({"bytes": bytes})),
    };
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    CallToolRequestParams::new(name).with_arguments(arguments)
}

pub(crate) struct Ours {
    launcher: Arc<LocalLauncher>,
}

impl Ours {
    pub(crate) fn new(launcher: LocalLauncher) -> Self {
        Self {
            launcher: Arc::new(launcher),
        }
    }
}

impl Peer for Ours {
    type Connection = LifecycleClient;
    type Caller = LifecyclePeer;

    const NAME: &'static str = "ours";

    async fn connect(&self) -> LifecycleClient {
        let spec = ServerSpec::builder("echo", SERVER).build().unwrap();
        LifecycleClient::builder(
            ServerConfig::new(self.launcher.clone(), spec).protocol(ProtocolPreference::Modern),
        )
        .start()
        .await
        .unwrap()
    }

    async fn call(&self, client: &LifecycleClient, bytes: usize) {
        let result = client.call_tool(params(bytes)).await.unwrap();
        std::hint::black_box(result);
    }

    fn caller(&self, client: &LifecycleClient) -> LifecyclePeer {
        client.peer().clone()
    }

    async fn call_by(peer: &LifecyclePeer) {
        std::hint::black_box(peer.call_tool(params(0)).await.unwrap());
    }

    async fn close(&self, client: LifecycleClient) {
        client.shutdown().await.unwrap();
    }
}

pub(crate) struct Theirs;

type Running = RunningService<RoleClient, ()>;

impl Peer for Theirs {
    type Connection = Running;
    type Caller = rmcp::Peer<RoleClient>;

    const NAME: &'static str = "rmcp";

    async fn connect(&self) -> Running {
        let command = tokio::process::Command::new(SERVER);
        let transport = TokioChildProcess::new(command).unwrap();
        let lifecycle = ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        };
        serve_client_with_lifecycle((), transport, lifecycle)
            .await
            .unwrap()
    }

    async fn call(&self, running: &Running, bytes: usize) {
        let result = running.peer().call_tool(params(bytes)).await.unwrap();
        std::hint::black_box(result);
    }

    fn caller(&self, running: &Running) -> rmcp::Peer<RoleClient> {
        running.peer().clone()
    }

    async fn call_by(peer: &rmcp::Peer<RoleClient>) {
        std::hint::black_box(peer.call_tool(params(0)).await.unwrap());
    }

    async fn close(&self, running: Running) {
        running.cancel().await.unwrap();
    }
}
