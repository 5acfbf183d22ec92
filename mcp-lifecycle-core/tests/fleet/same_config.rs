//! A host that reads its configuration again, and makes everything anew, starts
//! nothing anew.

use std::sync::Arc;

use mcp_lifecycle_core::config::{ConfigReader, Format, LauncherRegistry, ServerSet};
use mcp_lifecycle_core::fleet::{ServerManager, ServerPool, StartOutcome};
use mcp_lifecycle_core::launch::{
    LaunchContext, LaunchError, LaunchedServer, ReapError, ReapReport, ServerLauncher, ServerSpec,
    TerminationSemantics,
};
use proptest::prelude::*;
use rmcp::ClientHandler;
use serde_json::{Map, Value, json};

use crate::fake::{Fake, seconds};

#[derive(Clone)]
struct Handler;
impl ClientHandler for Handler {}

/// Loads a configuration as a host does at every change of its file: all of it is new.
fn load(fake: &Fake, text: &str) -> ServerSet {
    let launchers = LauncherRegistry::new(Arc::new(fake.clone()))
        .named_launcher("other", Arc::new(Elsewhere(fake.clone())));
    ConfigReader::new(&launchers)
        .read_str(text, Format::Json)
        .unwrap()
}

/// The same launcher with another setting.
#[derive(Debug)]
struct Elsewhere(Fake);

#[async_trait::async_trait]
impl ServerLauncher for Elsewhere {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn fingerprint(&self) -> Option<String> {
        Some("elsewhere".to_owned())
    }
    fn semantics(&self) -> TerminationSemantics {
        self.0.semantics()
    }
    async fn launch(
        &self,
        spec: &ServerSpec,
        context: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        self.0.launch(spec, context).await
    }
    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        self.0.reap_orphans().await
    }
}

fn text() -> impl Strategy<Value = String> {
    let server = (
        proptest::collection::vec("[a-z \"]{1,6}", 0..3),
        proptest::collection::btree_map("[A-Z]{1,4}", "[a-z]{0,6}", 0..3),
        proptest::option::of("/[a-z]{1,5}"),
        any::<[bool; 4]>(),
        proptest::option::of(1_u64..100),
    );
    let entry = server.prop_map(
        |(args, env, cwd, [required, other, exclusive, options], time)| {
            let mut entry =
                json!({"command": "fake", "args": args, "env": env, "required": required});
            let mut put = |key: &str, value: Value| entry[key] = value;
            if let Some(cwd) = cwd {
                put("cwd", json!(cwd));
            }
            if other {
                put("launcher", json!("other"));
            }
            if exclusive {
                put("sharing", json!("exclusive"));
            }
            if options {
                put("launcherOptions", json!({"image": "i"}));
            }
            if let Some(time) = time {
                put("callTimeout", json!(format!("{time}s")));
                put("restart", json!({"maxRestarts": time}));
            }
            entry
        },
    );
    proptest::collection::btree_map("[a-z]{1,8}", entry, 1..6).prop_map(|servers| {
        let servers: Map<String, Value> = servers.into_iter().collect();
        json!({"mcpServers": servers}).to_string()
    })
}

/// Runs in virtual time.
pub(crate) fn paused(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(test);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reading_a_file_twice_changes_nothing(text in text()) {
        paused(async {
            let fake = Fake::new();
            let manager = ServerManager::builder("m").handler(|_| Handler).build();
            let pool = ServerPool::builder("p").handler(|_, _| Handler).build();
            let first = load(&fake, &text).servers;
            manager.refresh(first.clone()).await.unwrap();
            for server in &first {
                drop(pool.acquire(server).await.unwrap());
            }
            let started = fake.starts();
            assert_eq!(started, 2 * first.len());
            for _ in 0..3 {
                let report = manager.refresh(load(&fake, &text).servers).await.unwrap();
                for server in &report.servers {
                    assert!(matches!(server.start, Some(StartOutcome::Kept)), "{server:?}");
                    assert!(server.end.is_none());
                }
                for server in &load(&fake, &text).servers {
                    assert_eq!(pool.acquire(server).await.unwrap().generation(), 1);
                }
                assert_eq!(fake.starts(), started, "something was started again");
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn another_setting_of_the_launcher_is_another_process() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    let text = |launcher: &str| {
        json!({"mcpServers": {"s": {"command": "fake", "launcher": launcher}}}).to_string()
    };
    manager
        .refresh(load(&fake, &text("fake")).servers)
        .await
        .unwrap();
    let report = manager
        .refresh(load(&fake, &text("other")).servers)
        .await
        .unwrap();
    assert!(matches!(report.servers[0].start, Some(StartOutcome::Ready)));
    assert_eq!(fake.starts(), 2);
}

#[tokio::test(start_paused = true)]
async fn each_start_gets_a_handler_for_its_server() {
    let fake = Fake::new();
    let (made, mut names) = tokio::sync::mpsc::unbounded_channel();
    let manager_made = made.clone();
    let manager = ServerManager::builder("m")
        .handler(move |server| {
            let _ = manager_made.send(server.to_owned());
            Handler
        })
        .build();
    let pool = ServerPool::builder("p")
        .handler(move |scope, server| {
            let _ = made.send(format!("{scope}/{server}"));
            Handler
        })
        .build();
    manager
        .refresh([fake.config("a", &[]), fake.config("b", &[])])
        .await
        .unwrap();
    let scope = pool.scope("agent/1");
    let _scoped = scope.acquire(&fake.config("c", &[])).await.unwrap();
    let _shared = pool.acquire(&fake.config("d", &[])).await.unwrap();
    fake.crash("a");
    manager.ready("b", seconds(5)).await.unwrap();
    tokio::time::sleep(seconds(5)).await;
    manager.ready("a", seconds(5)).await.unwrap();
    let mut seen = Vec::new();
    while let Ok(name) = names.try_recv() {
        seen.push(name);
    }
    seen.sort();
    assert_eq!(seen, ["/d", "a", "a", "agent/1/c", "b"]);
}
