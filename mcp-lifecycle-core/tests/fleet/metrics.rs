//! The events as counters of the `metrics` facade.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use mcp_lifecycle_core::fleet::ServerManager;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::fake::{Fake, seconds};

/// Counts by label: what an exporter would.
#[derive(Default)]
struct Exporter {
    counters: Mutex<BTreeMap<Key, Arc<AtomicU64>>>,
}

impl Exporter {
    /// `event@server` of this owner, and how often.
    fn seen(&self, owner: &str) -> BTreeMap<String, u64> {
        let counters = self.counters.lock().unwrap();
        let label = |key: &Key, name: &str| {
            let label = key.labels().find(|label| label.key() == name);
            label.map(|label| label.value().to_owned()).unwrap()
        };
        counters
            .iter()
            .filter(|(key, _)| key.name() == "mcp_server_events_total")
            .filter(|(key, _)| label(key, "owner") == owner)
            .map(|(key, count)| {
                let name = format!("{}@{}", label(key, "event"), label(key, "server"));
                (name, count.load(Ordering::Relaxed))
            })
            .collect()
    }
}

impl Recorder for Exporter {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut counters = self.counters.lock().unwrap();
        Counter::from_arc(Arc::clone(counters.entry(key.clone()).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn every_event_is_counted_for_an_exporter() {
    let exporter = Exporter::default();
    metrics::with_local_recorder(&exporter, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let fake = Fake::new();
            let manager = ServerManager::new("counted");
            let servers = [fake.config("good", &[]), fake.config("bad", &["--fail"])];
            manager.refresh(servers).await.unwrap();
            manager.shutdown(seconds(5)).await.unwrap();
        });
    });
    let seen = exporter.seen("counted");
    let expected = [
        ("ended@bad", 1),
        ("ended@good", 1),
        ("ending@good", 1),
        ("failed@bad", 1),
        ("launched@good", 1),
        ("ready@good", 1),
        ("starting@bad", 1),
        ("starting@good", 1),
    ];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(seen, BTreeMap::from(expected));
}
