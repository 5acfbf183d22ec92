//! A pool at its limits.

use mcp_lifecycle_core::fleet::{AcquireErrorKind, FleetOptions, ServerPool};

use crate::fake::{Fake, seconds};

#[tokio::test(start_paused = true)]
async fn at_the_limit_the_error_names_what_holds_it() {
    let fake = Fake::new();
    let pool = ServerPool::builder("p").max_live(2).build();
    let agent = pool.scope("agent-7");
    let _one = agent.acquire(&fake.config("files", &[])).await.unwrap();
    let _two = pool.acquire(&fake.config("search", &[])).await.unwrap();
    let error = pool.acquire(&fake.config("third", &[])).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("limit of 2"), "{text}");
    assert!(text.contains("files of p/agent-7 (1 lease)"), "{text}");
    assert!(text.contains("search of p (1 lease)"), "{text}");
    assert_eq!(fake.starts(), 2);
    pool.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_idle_server_used_longest_ago_makes_room() {
    let fake = Fake::new();
    let pool = ServerPool::builder("p").max_live(3).build();
    let _held = pool.acquire(&fake.config("held", &[])).await.unwrap();
    for name in ["older", "newer"] {
        tokio::time::sleep(seconds(1)).await;
        drop(pool.acquire(&fake.config(name, &[])).await.unwrap());
    }
    let _new = pool.acquire(&fake.config("new", &[])).await.unwrap();
    let names: Vec<_> = pool
        .list()
        .iter()
        .map(|record| record.server.to_string())
        .collect();
    assert_eq!(names, ["held", "new", "newer"]);
    pool.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_has_a_limit_of_its_own() {
    let fake = Fake::new();
    let pool = ServerPool::new("p");
    let server = |token: &str| {
        fake.config_env("s", &[], token)
            .in_fleet(FleetOptions::new().max_live(1))
    };
    let _one = pool.acquire(&server("a")).await.unwrap();
    let error = pool.acquire(&server("b")).await.unwrap_err();
    assert!(
        matches!(
            error.kind(),
            AcquireErrorKind::Capacity {
                of_server: true,
                ..
            }
        ),
        "{error}"
    );
    pool.shutdown(seconds(5)).await.unwrap();
}
