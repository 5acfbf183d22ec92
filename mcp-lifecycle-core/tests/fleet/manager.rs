//! Starting and refreshing a declared set.

use std::sync::{Arc, Mutex};

use mcp_lifecycle_core::client::{EndResult, ServerEvent, ServerEventKind, ServerObserver};
use mcp_lifecycle_core::fleet::{
    FleetOptions, FleetServer, KeptBy, RefreshErrorKind, RefreshReport, Replacement, ServerManager,
    ServerState, StartOutcome,
};
use mcp_lifecycle_core::terminate::EndReason;
use tokio::time::Instant;

use crate::fake::{Fake, call, seconds};
use crate::log::Log;

#[tokio::test(start_paused = true)]
async fn servers_start_in_parallel_within_the_cap() {
    let fake = Fake::new();
    let manager = ServerManager::builder("m").concurrent_starts(4).build();
    let servers = (0..12).map(|n| fake.config(&format!("s{n}"), &["--slow", "1000"]));
    let begun = Instant::now();
    let report = manager.refresh(servers).await.unwrap();
    assert_eq!(report.ready(), 12);
    assert_eq!(begun.elapsed().as_secs(), 3, "three rounds of four");
    assert_eq!(fake.world.lock().unwrap().most_launching, 4);
    manager.shutdown(seconds(5)).await.unwrap();
    assert_eq!(fake.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_error_lists_every_required_server_that_failed() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    let required = || FleetOptions::new().required(true);
    let servers: [FleetServer; 4] = [
        fake.config("fine", &[]).into(),
        fake.config("missing", &["--fail"]).in_fleet(required()),
        fake.config("hangs", &["--silent"])
            .startup_timeout(seconds(3))
            .in_fleet(required()),
        fake.config("optional", &["--fail"]).into(),
    ];
    let error = manager.refresh(servers).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("2 required servers"), "{text}");
    assert!(text.contains("missing") && text.contains("hangs"), "{text}");
    assert!(!text.contains("optional"), "{text}");
    let RefreshErrorKind::Required(report) = error.kind() else {
        panic!()
    };
    assert!(matches!(
        report.get("fine").unwrap().start,
        Some(StartOutcome::Ready)
    ));
    assert!(manager.server("fine").is_some(), "the others run");
    manager.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refresh_keeps_what_is_unchanged_and_replaces_what_is_not() {
    let fake = Fake::new();
    let log = Log::default();
    let manager = ServerManager::builder("m").observer(log.observer()).build();
    let first = ["same", "changed", "removed"].map(|name| fake.config(name, &[]));
    manager.refresh(first).await.unwrap();
    let second: [FleetServer; 3] = [
        fake.config("same", &[])
            .in_fleet(FleetOptions::new().idle_ttl(None)),
        fake.config("changed", &["--new"]).into(),
        fake.config("added", &[]).into(),
    ];
    let report = manager.refresh(second).await.unwrap();
    let start = |name: &str| report.get(name).unwrap().start.clone();
    assert!(matches!(start("same"), Some(StartOutcome::Kept)));
    assert!(matches!(start("changed"), Some(StartOutcome::Ready)));
    assert!(matches!(start("added"), Some(StartOutcome::Ready)));
    let ended = |name: &str| match report.get(name).unwrap().end.clone() {
        Some(Ok(EndResult::Proven(report))) => report.reason.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(ended("changed"), EndReason::ConfigChanged);
    assert_eq!(ended("removed"), EndReason::Undeclared);
    assert_eq!(fake.starts(), 5);
    assert_eq!(
        fake.most("changed"),
        1,
        "the old one is gone before the new one starts"
    );
    manager.shutdown(seconds(5)).await.unwrap();
    log.assert_balanced();
}

/// A user interface: it shows the servers one by one, and then the summary.
#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<String>>>);

impl ServerObserver for Screen {
    fn on_event(&self, event: &ServerEvent) {
        if !matches!(event.kind, ServerEventKind::Launched { .. }) {
            let line = format!("{} {}", event.server, event.kind.as_str());
            self.0.lock().unwrap().push(line);
        }
    }
}

impl Screen {
    fn summary(&self, report: &RefreshReport) {
        let failed = report.failed().count();
        let line = format!("{} ready, {failed} failed", report.ready());
        self.0.lock().unwrap().push(line);
    }
}

#[tokio::test(start_paused = true)]
async fn the_summary_of_a_refresh_is_told_after_the_events_of_its_servers() {
    let fake = Fake::new();
    let screen = Screen::default();
    let manager = ServerManager::builder("m").observer(screen.clone()).build();
    let servers = [fake.config("good", &[]), fake.config("bad", &["--fail"])];
    screen.summary(&manager.refresh(servers).await.unwrap());
    let required = [fake
        .config("bad", &["--fail", "--again"])
        .in_fleet(FleetOptions::new().required(true))];
    let error = manager.refresh(required).await.unwrap_err();
    let RefreshErrorKind::Required(report) = error.kind() else {
        panic!("{error}")
    };
    screen.summary(report);
    manager.shutdown(seconds(5)).await.unwrap();
    let lines = screen.0.lock().unwrap().clone();
    let at = |wanted: &str| {
        let mut found = lines.iter().enumerate().filter(|(_, line)| *line == wanted);
        let first = found.next().map(|(at, _)| at);
        assert!(found.next().is_none(), "{wanted} twice: {lines:?}");
        first.unwrap_or_else(|| panic!("no {wanted}: {lines:?}"))
    };
    let summary = at("1 ready, 1 failed");
    assert!(at("good ready") < summary, "{lines:?}");
    let second = at("0 ready, 1 failed");
    assert!(summary < second && at("good ended") < second, "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_on_a_replaced_server_complete() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    manager.refresh([fake.config("s", &[])]).await.unwrap();
    let peer = manager.server("s").unwrap();
    let flying = tokio::spawn(async move { peer.call_tool(call(3000)).await });
    tokio::time::sleep(seconds(1)).await;
    manager
        .refresh([fake.config("s", &["--new"])])
        .await
        .unwrap();
    flying.await.unwrap().expect("the call was given its time");
    manager.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_outlasts_the_drain_does_not_hold_the_refresh() {
    let fake = Fake::new();
    let manager = ServerManager::builder("m").drain(seconds(2)).build();
    manager.refresh([fake.config("s", &[])]).await.unwrap();
    let peer = manager.server("s").unwrap();
    let flying = tokio::spawn(async move { peer.call_tool(call(300_000)).await });
    tokio::time::sleep(seconds(1)).await;
    let begun = Instant::now();
    manager
        .refresh([fake.config("s", &["--new"])])
        .await
        .unwrap();
    assert!(begun.elapsed() < seconds(3), "{:?}", begun.elapsed());
    flying.await.unwrap().unwrap_err();
    manager.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn beside_leaves_no_gap_and_a_failed_successor_changes_nothing() {
    let fake = Fake::new();
    let manager = ServerManager::builder("m")
        .replacement(Replacement::Beside)
        .build();
    manager.refresh([fake.config("s", &[])]).await.unwrap();
    let refresh = manager.refresh([fake.config("s", &["--slow", "1000"])]);
    tokio::pin!(refresh);
    loop {
        assert!(manager.server("s").is_some(), "there was a gap");
        tokio::select! {
            biased;
            report = &mut refresh => break assert_eq!(report.unwrap().ready(), 1),
            () = tokio::time::sleep(std::time::Duration::from_millis(50)) => {}
        }
    }
    assert_eq!(fake.most("s"), 2);
    manager.ready("s", seconds(5)).await.unwrap();
    let report = manager
        .refresh([fake.config("s", &["--fail"])])
        .await
        .unwrap();
    assert!(matches!(
        report.get("s").unwrap().start,
        Some(StartOutcome::Failed(_))
    ));
    tokio::time::sleep(seconds(5)).await;
    assert!(manager.server("s").is_some(), "the old one stays");
    assert_eq!(fake.live(), 1);
    manager.shutdown(seconds(5)).await.unwrap();
    assert_eq!(fake.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_comes_back_and_the_list_says_why_it_is_down() {
    let fake = Fake::new();
    let manager = ServerManager::new("app");
    manager.refresh([fake.config("s", &[])]).await.unwrap();
    let record = &manager.list()[0];
    assert_eq!(
        (record.state, &record.kept_by),
        (ServerState::Ready, &KeptBy::Declared)
    );
    assert_eq!(&*record.owner, "app");
    fake.crash("s");
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let record = &manager.list()[0];
    assert_eq!(record.state, ServerState::Backoff);
    assert!(record.next_attempt.is_some());
    let last = record.last_error.clone().unwrap();
    assert!(last.contains("signal 9"), "{last}");
    manager.ready("s", seconds(5)).await.unwrap();
    assert_eq!(manager.list()[0].generation, 2);
    manager.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_two_refreshes_at_a_time_the_last_declaration_stands() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    let one = manager.refresh([fake.config("a", &["--slow", "1000"])]);
    let two = manager.refresh([fake.config("b", &[])]);
    let (one, two) = tokio::join!(one, two);
    assert!(matches!(
        one.unwrap().get("a").unwrap().start,
        Some(StartOutcome::Cancelled)
    ));
    assert_eq!(two.unwrap().ready(), 1);
    assert!(manager.server("a").is_none() && manager.server("b").is_some());
    assert_eq!(fake.live(), 1);
    manager.shutdown(seconds(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_name_declared_twice_changes_nothing() {
    let fake = Fake::new();
    let manager = ServerManager::new("m");
    let twice = [fake.config("s", &[]), fake.config("s", &["--other"])];
    let error = manager.refresh(twice).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "manager `m`: server `s` is declared twice"
    );
    assert_eq!(fake.starts(), 0);
}
