//! The manager and the pool against real processes: what lives and dies is
//! judged by end of file on connections that the processes hold.

#[expect(dead_code, reason = "shared with the suite of the local launcher")]
#[path = "local/support.rs"]
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mcp_lifecycle_conformance::alive::AliveConn;
use mcp_lifecycle_core::client::{ServerConfig, ServerEvent, ServerEventKind};
use mcp_lifecycle_core::fleet::{FleetOptions, RestartPolicy, ServerManager, ServerPool};
use mcp_lifecycle_core::launch::{ServerLauncher, ServerSpec};
use support::{LIMIT, Rig, launcher, runtime, short, test};

/// A server of the fixture, by a name of its own.
fn server(
    launcher: &Arc<dyn ServerLauncher>,
    rig: &Rig,
    name: &str,
    args: &[&str],
) -> ServerConfig {
    let spec = ServerSpec::builder(name, env!("CARGO_BIN_EXE_mcp-fixture"))
        .args(args)
        .args(["--alive", &rig.alive.address(), "--role", name])
        .build()
        .unwrap();
    ServerConfig::new(Arc::clone(launcher), spec).termination(short())
}

async fn dead(conn: &AliveConn) {
    conn.wait_dead(LIMIT)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_refresh_ends_what_it_replaces_and_keeps_what_it_does_not() {
    test("manager refresh", async |rig| {
        let launcher = launcher();
        let manager = ServerManager::new("m");
        let one = [
            server(&launcher, rig, "same", &["plain"]),
            server(&launcher, rig, "changed", &["setsid"]),
        ];
        manager.refresh(one).await.unwrap();
        let same = rig.accept("same").await;
        let old = rig.accept("changed").await;
        let two = [
            server(&launcher, rig, "same", &["plain"]),
            server(&launcher, rig, "changed", &["plain"]),
        ];
        manager.refresh(two).await.unwrap();
        assert!(
            old.is_dead(),
            "the replaced server is gone when the refresh returns"
        );
        let new = rig.accept("changed").await;
        for conn in [&same, &new] {
            conn.ping(LIMIT).await.unwrap();
        }
        manager.shutdown(LIMIT).await.unwrap();
        dead(&same).await;
        dead(&new).await;
    });
}

#[test]
fn many_stubborn_servers_end_in_the_time_of_one() {
    test("24 stubborn servers", async |rig| {
        let launcher = launcher();
        let manager = ServerManager::new("m");
        let names: Vec<_> = (0..24).map(|n| format!("s{n}")).collect();
        let servers = names
            .iter()
            .map(|name| server(&launcher, rig, name, &["ignore-eof-term"]));
        manager.refresh(servers).await.unwrap();
        let begun = Instant::now();
        let report = manager.shutdown(LIMIT).await.unwrap();
        let policy = short();
        let one = policy.eof_grace + policy.term_grace;
        assert!(begun.elapsed() < one * 24, "{:?}", begun.elapsed());
        assert_eq!(report.ends.len(), 24);
        rig.alive.expect_all_dead(LIMIT).await.unwrap();
    });
}

#[test]
fn a_shutdown_while_servers_start_leaves_nothing() {
    test("shutdown during start", async |rig| {
        let launcher = launcher();
        let manager = ServerManager::builder("m").concurrent_starts(4).build();
        let names: Vec<_> = (0..12).map(|n| format!("s{n}")).collect();
        let servers = names
            .iter()
            .map(|name| server(&launcher, rig, name, &["never-answers"]));
        let refresh = manager.refresh(servers);
        let one_has_begun = async {
            while rig.alive.alive().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::pin!(refresh);
        tokio::select! {
            _ = &mut refresh => panic!("nothing answers"),
            () = one_has_begun => {}
        }
        let (shutdown, refresh) = tokio::join!(manager.shutdown(LIMIT), refresh);
        shutdown.unwrap();
        refresh.unwrap_err();
        rig.alive.expect_all_dead(LIMIT).await.unwrap();
    });
}

#[test]
fn a_dropped_refresh_leaves_its_servers_to_the_manager() {
    test("dropped refresh", async |rig| {
        let launcher = launcher();
        let manager = ServerManager::new("m");
        let servers = [server(&launcher, rig, "s", &["plain"])];
        let _ = tokio::time::timeout(Duration::from_millis(1), manager.refresh(servers)).await;
        manager.ready("s", LIMIT).await.unwrap();
        let conn = rig.accept("s").await;
        drop(manager);
        dead(&conn).await;
    });
}

#[test]
fn a_panic_kills_every_server() {
    let rig = Rig::new("panic");
    let runtime = runtime();
    let conn = std::cell::OnceCell::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let launcher = launcher();
        let manager = ServerManager::new("m");
        runtime.block_on(async {
            let servers = [server(&launcher, &rig, "s", &["ignore-eof-term"])];
            manager.refresh(servers).await.unwrap();
            let _ = conn.set(rig.accept("s").await);
        });
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    rig.alive.block_on(dead(conn.get().unwrap()));
    drop((conn, runtime));
    rig.finish();
}

#[test]
fn a_manager_that_outlives_its_runtime_has_nothing_left_to_own() {
    let rig = Rig::new("runtime gone");
    let runtime = runtime();
    let (manager, conn) = runtime.block_on(async {
        let launcher = launcher();
        let manager = ServerManager::new("m");
        let servers = [server(&launcher, &rig, "s", &["ignore-eof-term"])];
        manager.refresh(servers).await.unwrap();
        let conn = rig.accept("s").await;
        (manager, conn)
    });
    drop(runtime);
    rig.alive.block_on(dead(&conn));
    drop((manager, conn));
    rig.finish();
}

#[test]
fn a_crash_loop_starts_no_more_processes_than_its_budget() {
    test("crash loop", async |rig| {
        let launcher = launcher();
        let starts = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&starts);
        let manager = ServerManager::builder("m")
            .observer(move |event: &ServerEvent| {
                if let ServerEventKind::Starting { .. } = event.kind {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            })
            .build();
        let quick = Duration::from_millis(1);
        let policy = RestartPolicy::new()
            .backoff(quick, quick)
            .max_restarts(4)
            .cooldown(None);
        let server = server(&launcher, rig, "s", &["handshake-then-exit"])
            .in_fleet(FleetOptions::new().restart(policy));
        let _ = manager.refresh([server]).await;
        let exhausted = async {
            use mcp_lifecycle_core::fleet::ServerState;
            while manager.list()[0].state != ServerState::Exhausted {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, exhausted).await.unwrap();
        assert_eq!(starts.load(Ordering::Relaxed), 5);
        manager.shutdown(LIMIT).await.unwrap();
    });
}

#[test]
fn a_scope_that_ends_takes_helpers_in_other_sessions_along() {
    test("scope", async |rig| {
        let launcher = launcher();
        let pool = ServerPool::new("p");
        let agent = pool.scope("agent-1");
        let lease = agent
            .acquire(&server(&launcher, rig, "s", &["setsid"]))
            .await
            .unwrap();
        let conn = rig.accept("s").await;
        drop(agent);
        dead(&conn).await;
        rig.alive.expect_all_dead(LIMIT).await.unwrap();
        drop(lease);
        pool.shutdown(LIMIT).await.unwrap();
    });
}

#[test]
fn a_killed_server_is_not_leased_again() {
    test("killed server", async |rig| {
        let launcher = launcher();
        let pool = ServerPool::new("p");
        let quick = Duration::from_millis(1);
        let restart = RestartPolicy::new().backoff(quick, quick);
        let config =
            server(&launcher, rig, "s", &["plain"]).in_fleet(FleetOptions::new().restart(restart));
        let lease = pool.acquire(&config).await.unwrap();
        let conn = rig.accept("s").await;
        kill(conn.pid());
        dead(&conn).await;
        // The host hears of it a moment later.
        while lease.is_ready() {
            tokio::task::yield_now().await;
        }
        let again = pool.acquire(&config).await.unwrap();
        assert_eq!(again.generation(), 2);
        rig.accept("s").await.ping(LIMIT).await.unwrap();
        drop((lease, again));
        pool.shutdown(LIMIT).await.unwrap();
    });
}

/// The process is our own and not reaped before it is dead: the pid is its.
fn kill(pid: u32) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
}
