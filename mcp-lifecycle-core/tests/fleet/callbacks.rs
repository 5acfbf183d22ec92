//! Callbacks of an application may panic and may call back; neither wedges anything.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use mcp_lifecycle_core::client::{
    LifecycleClient, ProtocolPreference, ServerConfig, ServerEvent, ServerObserver,
};
use mcp_lifecycle_core::fleet::{FleetOptions, RestartPolicy, ServerManager, ServerPool};
use mcp_lifecycle_core::launch::ServerSpec;
use rmcp::ClientHandler;
use rmcp::model::{ClientConfig, ErrorData};
use rmcp::service::{RequestContext, RoleClient};

use crate::fake::{Fake, call, seconds};
use crate::moody::{Moods, Moody};

struct Panics;

impl ServerObserver for Panics {
    fn on_event(&self, event: &ServerEvent) {
        panic!("{event:?}");
    }
    fn on_stderr(&self, _: &str, _: &str, line: &str) {
        panic!("{line}");
    }
}

impl ClientHandler for Panics {
    async fn ping(&self, _: RequestContext<RoleClient>) -> Result<(), ErrorData> {
        panic!("no answer");
    }
    fn get_info(&self) -> ClientConfig {
        panic!("no info");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_outlives_an_observer_and_a_handler_that_panic() {
    let fake = Fake::new();
    let spec = ServerSpec::builder("s", "fake")
        .args(["--chatty", "2000", "--asks"])
        .build()
        .unwrap();
    let client = LifecycleClient::builder(
        ServerConfig::new(fake.clone(), spec).protocol(ProtocolPreference::Legacy),
    )
    .observer(Panics)
    .handler(Panics)
    .start()
    .await
    .unwrap();
    client.call_tool(call(100)).await.unwrap();
    {
        let world = fake.world.lock().unwrap();
        assert_eq!(world.said, 1, "standard error is read to its end");
        assert_eq!(world.answers.len(), 1, "the server has its answer");
        let message = world.answers[0]["error"]["message"].as_str();
        assert_eq!(message, Some("the handler panicked"));
    }
    let tail = client.stderr_tail();
    assert!(tail.last().unwrap().starts_with("line 1999"));
    client.shutdown().await.unwrap();
    assert_eq!(fake.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn manager_and_pool_outlive_an_observer_and_a_handler_that_panic() {
    let fake = Fake::new();
    let manager = ServerManager::builder("m")
        .observer(Panics)
        .handler(|_| Panics)
        .build();
    let pool = ServerPool::builder("p")
        .observer(Panics)
        .handler(|_, _| Panics)
        .build();
    let config = fake.config("s", &["--chatty", "2000"]);
    manager.refresh([config.clone()]).await.unwrap();
    let lease = pool.acquire(&config).await.unwrap();
    lease.call_tool(call(100)).await.unwrap();
    assert_eq!(fake.world.lock().unwrap().said, 2);
    fake.crash("s");
    tokio::time::sleep(seconds(5)).await;
    manager.ready("s", seconds(5)).await.unwrap();
    drop(lease);
    drop(pool.acquire(&config).await.unwrap());
    manager.shutdown(seconds(5)).await.unwrap();
    pool.shutdown(seconds(5)).await.unwrap();
    assert_eq!(fake.live(), 0);
}

/// Calls whatever there is to call, whenever something happens.
#[derive(Default)]
struct Reenters {
    manager: OnceLock<Weak<ServerManager>>,
    events: AtomicUsize,
    lines: AtomicUsize,
}

impl Reenters {
    fn reenter(&self) {
        let Some(manager) = self.manager.get().and_then(Weak::upgrade) else {
            return;
        };
        for record in manager.list() {
            let _ = manager.server(&record.server);
        }
        manager.retry("s");
    }
}

struct Shared(Arc<Reenters>);

impl ServerObserver for Shared {
    fn on_event(&self, _: &ServerEvent) {
        self.0.events.fetch_add(1, Ordering::Relaxed);
        self.0.reenter();
    }
    fn on_stderr(&self, owner: &str, server: &str, line: &str) {
        assert_eq!((owner, server), ("m", "s"));
        assert!(line.starts_with("line "));
        self.0.lines.fetch_add(1, Ordering::Relaxed);
        self.0.reenter();
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_may_call_back_and_sees_what_servers_say() {
    let fake = Fake::new();
    let observer = Arc::new(Reenters::default());
    let manager = ServerManager::builder("m")
        .observer(Shared(Arc::clone(&observer)))
        .build();
    let manager = Arc::new(manager);
    observer.manager.set(Arc::downgrade(&manager)).unwrap();
    manager
        .refresh([fake.config("s", &["--chatty", "50"])])
        .await
        .unwrap();
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(observer.lines.load(Ordering::Relaxed), 50);
    manager.shutdown(seconds(5)).await.unwrap();
    assert!(observer.events.load(Ordering::Relaxed) >= 4);
}

struct Plain;
impl ClientHandler for Plain {}

#[tokio::test(start_paused = true)]
async fn a_handler_that_cannot_be_made_is_a_start_that_failed() {
    let fake = Fake::new();
    let (mendable, mended) = tokio::sync::watch::channel(false);
    let manager = ServerManager::builder("m")
        .handler(move |_| {
            assert!(*mended.borrow(), "not yet");
            Plain
        })
        .build();
    let config = fake
        .config("s", &[])
        .in_fleet(FleetOptions::new().required(true));
    let error = manager.refresh([config]).await.unwrap_err();
    let text = mcp_lifecycle_core::launch::ErrorChain(&error).to_string();
    assert!(text.contains("handler"), "{text}");
    assert_eq!(fake.starts(), 0, "it is not started without its handler");
    mendable.send_replace(true);
    manager.ready("s", seconds(60)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_launcher_that_panics_is_a_start_that_failed() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    let config = fake.config("s", &["--panic"]).in_fleet(
        FleetOptions::new()
            .required(true)
            .restart(RestartPolicy::never()),
    );
    let error = manager.refresh([config]).await.unwrap_err();
    let text = mcp_lifecycle_core::launch::ErrorChain(&error).to_string();
    assert!(text.contains("a fault in the launcher"), "{text}");
    let replaced = manager.refresh([fake.config("s", &[])]).await.unwrap();
    assert_eq!(replaced.ready(), 1);
}

/// Servers of a launcher with faults, whose names surround that of a healthy one.
async fn beside_faults(fake: &Arc<Fake>, moods: Moods) -> ServerManager {
    let faulty = Moody::new(fake, moods);
    let manager = ServerManager::new("m");
    let config = |name: &str| {
        let spec = ServerSpec::builder(name, "fake").build().unwrap();
        ServerConfig::new(faulty.clone(), spec).protocol(ProtocolPreference::Legacy)
    };
    let mut configs: Vec<_> = (0..8).map(|n| config(&format!("faulty-{n}"))).collect();
    configs.extend((0..8).map(|n| fake.config(&format!("healthy-{n}"), &["--stubborn"])));
    let refresh = manager.refresh(configs);
    let _ = tokio::time::timeout(seconds(1), refresh).await;
    for n in 0..8 {
        let healthy = format!("healthy-{n}");
        manager.ready(&healthy, seconds(1)).await.unwrap();
    }
    manager
}

fn faults() -> [Moods; 2] {
    let kill_panics = Moods {
        kill_panics: true,
        ..Moods::default()
    };
    let drop_panics = Moods {
        drop_panics: true,
        ..Moods::default()
    };
    [kill_panics, drop_panics]
}

#[tokio::test(start_paused = true)]
async fn a_launcher_that_panics_when_it_kills_saves_nobody_elses_server() {
    for moods in faults() {
        let fake = Fake::new();
        let manager = beside_faults(&fake, moods).await;
        drop(manager);
        tokio::time::sleep(seconds(5)).await;
        assert_eq!(fake.live(), 0, "{moods:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_panics_when_it_is_dropped_is_over() {
    let [_, drop_panics] = faults();
    let fake = Fake::new();
    let manager = beside_faults(&fake, drop_panics).await;
    let healthy = fake.config("healthy-0", &["--stubborn"]);
    manager.refresh([healthy]).await.unwrap();
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(manager.list().len(), 1, "{:?}", manager.list());
    manager.shutdown(seconds(5)).await.unwrap();
    assert_eq!(fake.live(), 0);
}

/// A subscriber that can neither log what servers say nor that it cannot.
struct NoLog;

impl tracing::Subscriber for NoLog {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let meta = event.metadata();
        let says = meta.fields().field("stderr").is_some();
        assert!(!says && *meta.level() != tracing::Level::ERROR, "no log");
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn standard_error_is_read_to_its_end_though_a_subscriber_panics() {
    let _log = tracing::subscriber::set_default(NoLog);
    let fake = Fake::new();
    let args = ["--chatty", "2000"];
    let spec = ServerSpec::builder("s", "fake").args(args).build().unwrap();
    let client = LifecycleClient::builder(
        ServerConfig::new(fake.clone(), spec).protocol(ProtocolPreference::Legacy),
    )
    .start()
    .await
    .unwrap();
    client.call_tool(call(100)).await.unwrap();
    let tail = client.stderr_tail();
    let last = tail.last().expect("the pump goes on");
    assert!(last.starts_with("line 1999"), "{last}");
    client.shutdown().await.unwrap();
}
