use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::fake::{FakeEngine, within};
use crate::ledger::Ledger;
use crate::machine;

/// Labels of a host of this machine.
fn labels_of(instance: &str, domain: &str, boot: &str) -> HashMap<String, String> {
    let fields = [
        (labels::DOMAIN, domain),
        (labels::MACHINE, &machine::id()),
        (labels::BOOT, boot),
        (labels::ON_END, labels::END),
        (labels::LAUNCH, "l"),
        (labels::SERVER, "s"),
    ];
    let own = fields.map(|(field, value)| (labels::key(instance, field), value.to_owned()));
    own.into()
}

/// An engine with one container, that has these labels when it is listed.
fn engine_with(labels: impl Fn() -> HashMap<String, String> + Send + Sync + 'static) -> FakeEngine {
    let removed = AtomicBool::new(false);
    FakeEngine::start(move |request| {
        if request.starts_with("DELETE") {
            removed.store(true, Ordering::SeqCst);
            return Some((204, String::new()));
        }
        if request.contains("/x/json") {
            return Some(match removed.load(Ordering::SeqCst) {
                true => (404, r#"{"message":"none"}"#.to_owned()),
                false => (200, "{}".to_owned()),
            });
        }
        if request.contains("/images/") {
            return Some((200, "{}".to_owned()));
        }
        let container =
            serde_json::json!([{"Id": "x", "ImageID": "i", "Names": ["/x"], "Labels": labels()}]);
        Some((200, container.to_string()))
    })
}

fn run(first: First<'_>, directory: &Path) -> Result<ReapReport, OrphansError> {
    let place = Place::At(directory.to_owned());
    within("it is searched", reap(first, &place, Aim::End))
}

/// A ledger whose holder died, having used this engine.
fn dead(directory: &Path, endpoint: &str) {
    let file = directory.join("0123.ledger");
    fs::write(file, format!("{endpoint}\n")).unwrap();
}

fn ledgers(directory: &Path) -> usize {
    ledger::instances(&Place::At(directory.to_owned()).records().homes)
        .unwrap()
        .len()
}

/// A daemon that was killed may list for as long as it runs what it has removed since.
#[test]
fn what_is_listed_and_not_there_is_no_orphan() {
    let directory = tempfile::tempdir().unwrap();
    let engine = FakeEngine::start(|request| match request {
        inspect if inspect.contains("/x/json") || inspect.starts_with("DELETE") => {
            Some((404, r#"{"message":"none"}"#.to_owned()))
        }
        image if image.contains("/images/") => Some((200, "{}".to_owned())),
        _ => {
            let labels = labels_of("0123", "", "an-earlier-one");
            let all =
                serde_json::json!([{"Id": "x", "ImageID": "i", "Names": ["/x"], "Labels": labels}]);
            Some((200, all.to_string()))
        }
    });
    dead(directory.path(), &engine.endpoint().noted());
    let report = run(First::Default(None), directory.path()).unwrap();
    assert!(report.ended.is_empty(), "{report:?}");
    assert!(report.unknown.is_empty(), "{report:?}");
    assert_eq!(ledgers(directory.path()), 0, "and its host is forgotten");
}

#[test]
fn a_host_that_begins_before_the_list_keeps_its_container() {
    let directory = tempfile::tempdir().unwrap();
    let (path, new) = (directory.path().to_owned(), Mutex::new(None));
    let engine = engine_with(move || {
        let ledger = Ledger::take(&Place::At(path.clone())).unwrap();
        let labels = labels_of(&ledger.instance, &ledger.domain, &crate::machine::boot());
        *new.lock().unwrap() = Some(ledger);
        labels
    });
    let own = Engine::new(engine.endpoint());
    let report = run(First::Own(&own), directory.path()).unwrap();
    assert!(report.ended.is_empty(), "{report:?}");
    assert_eq!(report.spared.len(), 1, "{report:?}");
}

#[test]
fn a_ledger_directory_that_a_boot_cleared_does_not_hide_what_is_older() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("none");
    let engine = engine_with(|| labels_of("0123", "d", "an-earlier-boot"));
    let own = Engine::new(engine.endpoint());
    let report = run(First::Own(&own), &missing).unwrap();
    // A machine without an id cannot tell that the host was its own.
    let expected = usize::from(!machine::id().is_empty());
    assert_eq!(report.ended.len(), expected, "{report:?}");
    assert!(!missing.exists());
}

#[test]
fn a_default_engine_that_does_not_answer_costs_nothing_but_its_ledgers_time() {
    let directory = tempfile::tempdir().unwrap();
    let silent = FakeEngine::start(|_| None);
    let engine = Engine::new(silent.endpoint());
    dead(directory.path(), &silent.endpoint().to_string());
    run(First::Own(&engine), directory.path()).unwrap_err();
    run(First::Default(Some(&engine)), directory.path()).unwrap();
    assert_eq!(ledgers(directory.path()), 1);
    run(First::Default(None), directory.path()).unwrap();
    assert_eq!(ledgers(directory.path()), 1);
}

#[test]
fn a_ledger_stays_whose_engine_cannot_be_reached_from_here() {
    for endpoint in ["https://127.0.0.1:1", "carrier-pigeon://x"] {
        let directory = tempfile::tempdir().unwrap();
        dead(directory.path(), endpoint);
        let report = run(First::Default(None), directory.path()).unwrap();
        assert_eq!(ledgers(directory.path()), 1, "{endpoint}");
        assert_eq!(unknown(&report), [endpoint]);
    }
}

/// The names of what could not be looked at.
fn unknown(report: &ReapReport) -> Vec<&str> {
    let names = report.unknown.iter().map(|it| it.what.id.as_str());
    names.collect()
}

/// Nothing says that there are no containers of dead hosts at it.
#[test]
fn an_engine_that_says_nothing_is_not_one_without_orphans() {
    let directory = tempfile::tempdir().unwrap();
    let silent = FakeEngine::start(|_| None);
    let engine = Engine::new(silent.endpoint());
    let report = run(First::Default(Some(&engine)), directory.path()).unwrap();
    assert_eq!(unknown(&report), [engine.endpoint.noted()]);
    assert!(!report.unknown[0].why.is_empty());
    // Once, although a ledger names it as well.
    dead(directory.path(), &engine.endpoint.noted());
    let report = run(First::Default(Some(&engine)), directory.path()).unwrap();
    assert_eq!(unknown(&report), [engine.endpoint.noted()]);
}

/// Without an engine no container runs; only a ledger says that there have been some.
#[test]
fn an_engine_that_is_not_there_is_unknown_only_where_a_dead_host_has_used_it() {
    let directory = tempfile::tempdir().unwrap();
    let gone = Endpoint::Unix(directory.path().join("gone.sock"));
    let engine = Engine::new(gone.clone());
    let ledgers = directory.path().join("ledgers");
    fs::create_dir(&ledgers).unwrap();
    let report = run(First::Default(Some(&engine)), &ledgers).unwrap();
    assert!(report.is_complete(), "{report:?}");
    let living = Ledger::take(&Place::At(ledgers.clone())).unwrap();
    living.note(&gone.noted()).unwrap();
    let report = run(First::Default(Some(&engine)), &ledgers).unwrap();
    assert!(report.is_complete(), "its user lives: {report:?}");
    dead(&ledgers, &gone.noted());
    let report = run(First::Default(Some(&engine)), &ledgers).unwrap();
    assert_eq!(unknown(&report), [gone.noted()]);
}

/// Its labels say that it was another machine's: nobody can tell here.
#[test]
fn the_ledger_of_a_container_that_is_spared_stays() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine_with(|| {
        let mut labels = labels_of("0123", "d", "b");
        labels.insert(labels::key("0123", labels::MACHINE), "another".to_owned());
        labels
    });
    dead(directory.path(), &engine.endpoint().to_string());
    let own = Engine::new(engine.endpoint());
    let report = run(First::Own(&own), directory.path()).unwrap();
    assert_eq!(report.spared.len(), 1, "{report:?}");
    assert_eq!(ledgers(directory.path()), 1);
}

/// A host that was the server of one that lives.
#[test]
fn a_dead_host_within_a_living_one_loses_its_container() {
    let directory = tempfile::tempdir().unwrap();
    let outer = Ledger::take(&Place::At(directory.path().to_owned())).unwrap();
    let (instance, domain) = (outer.instance.clone(), outer.domain.clone());
    let engine = engine_with(move || {
        let mut labels = labels_of("0123", &domain, "b");
        labels.extend(labels_of(&instance, &domain, "b"));
        labels
    });
    dead(directory.path(), &engine.endpoint().to_string());
    let own = Engine::new(engine.endpoint());
    let report = run(First::Own(&own), directory.path()).unwrap();
    assert_eq!(report.ended.len(), 1, "{report:?}");
    assert_eq!(ledgers(directory.path()), 1, "that of the living one");
}

/// One that was to outlive its host is nobody's to end.
#[test]
fn the_ledger_of_a_container_that_is_kept_goes() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine_with(|| {
        let mut labels = labels_of("0123", "d", "b");
        labels.insert(labels::key("0123", labels::ON_END), labels::KEEP.to_owned());
        labels
    });
    dead(directory.path(), &engine.endpoint().to_string());
    let own = Engine::new(engine.endpoint());
    let report = run(First::Own(&own), directory.path()).unwrap();
    assert_eq!(report.spared.len(), 1, "{report:?}");
    assert_eq!(ledgers(directory.path()), 0);
}
/// A disk that loses bytes, or a file that somebody put there.
#[test]
fn one_file_that_cannot_be_read_does_not_stop_the_search() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine_with(|| labels_of("0123", "d", "b"));
    dead(directory.path(), &engine.endpoint().to_string());
    for damaged in ["4567.ledger", "domain"] {
        fs::write(directory.path().join(damaged), b"\xff\xfe").unwrap();
    }
    let own = Engine::new(engine.endpoint());
    let report = run(First::Own(&own), directory.path()).unwrap();
    assert_eq!(report.ended.len(), 1, "{report:?}");
    let unknown = format!("{:?}", report.unknown);
    assert_eq!(report.unknown.len(), 2, "{unknown}");
    for damaged in ["4567.ledger", "domain"] {
        assert!(unknown.contains(damaged), "{unknown}");
    }
    // The one that is proven gone is forgotten, the other is not.
    assert_eq!(ledgers(directory.path()), 1);
}

/// A host whose ledger cannot be read may live.
#[test]
fn the_containers_of_a_ledger_that_cannot_be_read_are_spared() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = Ledger::take(&Place::At(directory.path().to_owned())).unwrap();
    let domain = ledger.domain.clone();
    let engine = engine_with(move || labels_of("4567", &domain, &machine::boot()));
    fs::write(directory.path().join("4567.ledger"), b"\xff").unwrap();
    let own = Engine::new(engine.endpoint());
    let report = run(First::Own(&own), directory.path()).unwrap();
    assert_eq!(report.spared.len(), 1, "{report:?}");
    assert_eq!(ledgers(directory.path()), 2, "this host's, and that");
}
