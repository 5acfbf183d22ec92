use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use super::super::ReapPolicy;
use super::super::proxy::Additions;
use super::*;
use crate::engine::Engine;
use crate::fake::{FakeEngine, within};
use crate::labels;
use crate::wrapper::cli::Cli;
use crate::wrapper::proxy::Proxy;

const LIMIT: Duration = Duration::from_secs(60);

/// A server that never came to be: its containers are swept at once.
fn abandoned(directory: &std::path::Path, means: Means) -> Arc<Nested> {
    let ledger = Arc::new(Ledger::take(&crate::ledger::Place::At(directory.to_owned())).unwrap());
    let nested = Arc::new(Nested::new(labels::test_mark(), means, ledger));
    drop(nested.follow().unwrap());
    nested
}

fn by_proxy(directory: &std::path::Path, engine: &FakeEngine) -> Means {
    let additions = Additions {
        mark: labels::test_mark(),
        policy: ReapPolicy::All,
        sockets: None,
    };
    let reaching = Arc::new(Engine::new(engine.endpoint()));
    let path = directory.join("p");
    let host = crate::host::Host::without_will(directory);
    Means::Proxy(Proxy::start(path, reaching, additions, host).unwrap())
}

/// The engine's list, with a container of the server's.
fn one_container() -> String {
    let mark = labels::test_mark();
    let labels = &mark.all;
    let all = serde_json::json!([{"Id": "x", "ImageID": "i", "Names": ["/x"], "Labels": labels}]);
    all.to_string()
}

#[test]
fn a_create_that_the_engine_has_not_answered_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let (arrived, create) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let released = std::sync::Mutex::new(released);
    let there = AtomicBool::new(false);
    let engine = FakeEngine::start(move |request| {
        let json = |text: &str| Some((200, text.to_owned()));
        if request.contains("/containers/create") {
            arrived.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
            there.store(true, Ordering::SeqCst);
            return json(r#"{"Id":"x"}"#);
        }
        if request.starts_with("DELETE") {
            there.store(false, Ordering::SeqCst);
            return Some((204, String::new()));
        }
        match (there.load(Ordering::SeqCst), request.contains("/x/json")) {
            (false, true) => Some((404, r#"{"message":"none"}"#.to_owned())),
            (true, true) => json("{}"),
            (false, false) => json("[]"),
            (true, false) => json(&one_container()),
        }
    });
    let means = by_proxy(directory.path(), &engine);
    let mut client = UnixStream::connect(directory.path().join("p")).unwrap();
    let request =
        "POST /containers/create HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    client.write_all(request.as_bytes()).unwrap();
    create.recv_timeout(LIMIT).unwrap();

    let nested = abandoned(directory.path(), means);
    let Means::Proxy(proxy) = &nested.means else {
        unreachable!();
    };
    proxy.close();
    let error = within("it tells", nested.survivors()).unwrap_err();
    assert!(error.contains("under way"), "{error}");
    assert!(nested.done.borrow().is_none());
    release.send(()).unwrap();
    let swept = within("it ends", nested.done());
    assert_eq!(swept.ended.len(), 1, "{swept:?}");
    assert_eq!(within("it tells", nested.survivors()).unwrap(), []);
    // Its client has the answer all the same.
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// What is between this host and the engine has replaced the labels, as another host's proxy may.
#[test]
fn a_container_that_no_label_finds_is_no_proof() {
    let directory = tempfile::tempdir().unwrap();
    let there = AtomicBool::new(false);
    let engine = FakeEngine::start(move |request| match request {
        create if create.contains("/containers/create") => {
            there.store(true, Ordering::SeqCst);
            Some((201, r#"{"Id":"x"}"#.to_owned()))
        }
        remove if remove.starts_with("DELETE") => {
            there.store(false, Ordering::SeqCst);
            Some((204, String::new()))
        }
        inspect if inspect.contains("/x/json") => match there.load(Ordering::SeqCst) {
            true => Some((200, "{}".to_owned())),
            false => Some((404, r#"{"message":"none"}"#.to_owned())),
        },
        _ => Some((200, "[]".to_owned())),
    });
    let means = by_proxy(directory.path(), &engine);
    let mut client = UnixStream::connect(directory.path().join("p")).unwrap();
    let request =
        "POST /containers/create HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    client.write_all(request.as_bytes()).unwrap();
    client.read_to_end(&mut Vec::new()).unwrap();
    let nested = abandoned(directory.path(), means);
    let swept = within("it ends", nested.done());
    assert_eq!(swept.ended.len(), 1, "{swept:?}");
    let Means::Proxy(proxy) = &nested.means else {
        unreachable!();
    };
    assert!(proxy.created().is_empty(), "proven gone, and forgotten");
}

/// A server that runs for months creates more containers than exist.
#[test]
fn containers_that_are_gone_are_forgotten_while_the_server_lives() {
    const CREATES: usize = 600;
    let directory = tempfile::tempdir().unwrap();
    let count = std::sync::atomic::AtomicUsize::new(0);
    let engine = FakeEngine::start(move |request| match request {
        create if create.contains("/containers/create") => {
            let id = count.fetch_add(1, Ordering::SeqCst);
            Some((201, format!(r#"{{"Id":"{id}"}}"#)))
        }
        _ => Some((404, r#"{"message":"none"}"#.to_owned())),
    });
    let means = by_proxy(directory.path(), &engine);
    let Means::Proxy(proxy) = &means else {
        unreachable!();
    };
    let path = directory.path().join("p");
    for _ in 0..CREATES {
        let mut client = UnixStream::connect(&path).unwrap();
        let request =
            "POST /containers/create HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
        client.write_all(request.as_bytes()).unwrap();
        client.read_to_end(&mut Vec::new()).unwrap();
    }
    let forgotten = async {
        while proxy.created().len() > CREATES / 2 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    within("they are forgotten", forgotten);
}

/// The engine is stuck with one create, and not with the others.
#[test]
fn a_create_that_hangs_does_not_save_what_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let (arrived, create) = mpsc::channel();
    let (removed, removal) = mpsc::channel();
    let there = AtomicBool::new(true);
    let engine = FakeEngine::start(move |request| {
        let json = |text: &str| Some((200, text.to_owned()));
        if request.contains("/containers/create") {
            arrived.send(()).unwrap();
            std::thread::park();
        }
        if request.starts_with("DELETE") {
            there.store(false, Ordering::SeqCst);
            removed.send(()).unwrap();
            return Some((204, String::new()));
        }
        match (there.load(Ordering::SeqCst), request.contains("/x/json")) {
            (false, true) => Some((404, r#"{"message":"none"}"#.to_owned())),
            (false, false) => json("[]"),
            (true, true) => json("{}"),
            (true, false) if request.contains("/images/") => json("{}"),
            (true, false) => json(&one_container()),
        }
    });
    let means = by_proxy(directory.path(), &engine);
    let mut client = UnixStream::connect(directory.path().join("p")).unwrap();
    let request = "POST /containers/create HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";
    client.write_all(request.as_bytes()).unwrap();
    create.recv_timeout(LIMIT).unwrap();

    let nested = abandoned(directory.path(), means);
    removal.recv_timeout(LIMIT).unwrap();
    assert!(nested.done.borrow().is_none(), "one may still come");
    let error = within("it tells", nested.survivors()).unwrap_err();
    assert!(error.contains("under way"), "{error}");
}

/// Its wait is answered only when it is removed.
#[test]
fn a_deaf_container_of_an_ended_server_is_forced_after_the_grace() {
    let directory = tempfile::tempdir().unwrap();
    let (remove, removed) = mpsc::channel();
    let removed = std::sync::Mutex::new(removed);
    let there = AtomicBool::new(true);
    let engine = FakeEngine::start(move |request| {
        let json = |text: &str| Some((200, text.to_owned()));
        if request.contains("/containers/create") {
            return Some((201, r#"{"Id":"x"}"#.to_owned()));
        }
        if request.starts_with("DELETE") {
            there.store(false, Ordering::SeqCst);
            let _ = remove.send(());
            return Some((204, String::new()));
        }
        if request.contains("/x/wait") {
            removed.lock().unwrap().recv().unwrap();
            return json(r#"{"StatusCode":137}"#);
        }
        match (there.load(Ordering::SeqCst), request.contains("/x/json")) {
            _ if request.contains("/x/kill") => Some((204, String::new())),
            (false, true) => Some((404, r#"{"message":"none"}"#.to_owned())),
            (false, false) => json("[]"),
            (true, true) => json(r#"{"State":{"Running":true}}"#),
            (true, false) if request.contains("/images/") => json("{}"),
            (true, false) => json(&one_container()),
        }
    });
    let means = by_proxy(directory.path(), &engine);
    let mut client = UnixStream::connect(directory.path().join("p")).unwrap();
    let request =
        "POST /containers/create HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    client.write_all(request.as_bytes()).unwrap();
    client.read_to_end(&mut Vec::new()).unwrap();
    let ledger = crate::ledger::Place::At(directory.path().to_owned());
    let ledger = Arc::new(Ledger::take(&ledger).unwrap());
    let nested = Arc::new(Nested::new(labels::test_mark(), means, ledger));
    let tracked = crate::wrapper::Tracked {
        spec: mcp_lifecycle_core::ServerSpec::builder("s", "p")
            .build()
            .unwrap(),
        server: nested.follow().unwrap(),
        nested: Arc::clone(&nested),
    };
    within("it ends", tracked.end(Duration::from_millis(50)));
    assert!(nested.force.is_cancelled());
    assert_eq!(within("it ends", nested.done()).ended.len(), 1);
}

#[test]
fn a_command_that_does_not_exist_has_created_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let cli = Cli {
        program: "/no/such/docker".into(),
        globals: Vec::new(),
        env: Vec::new(),
        directory: None,
    };
    let nested = abandoned(directory.path(), Means::Cli { cli, keep: false });
    assert!(within("it ends", nested.done()).ended.is_empty());
}

/// A daemon that was killed may list what it has removed since, for as long as it runs.
#[cfg(unix)]
#[test]
fn a_command_that_lists_what_it_has_removed_is_asked_again_with_pauses() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("docker");
    let calls = directory.path().join("calls");
    let script = format!(
        "#!/bin/sh\necho $1 >>{}\n[ $1 = rm ] || echo '0123 name'\n",
        calls.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let cli = Cli {
        program: program.into(),
        globals: Vec::new(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        directory: None,
    };
    let nested = abandoned(directory.path(), Means::Cli { cli, keep: false });
    let mut lost = nested.lost.subscribe();
    let is_named = |lost: &Option<String>| lost.as_deref() == Some(STILL_LISTED);
    drop(within("it is named", lost.wait_for(is_named)).unwrap());
    // As often as that takes, and not as often as it can be run.
    std::thread::sleep(PAUSE * 3);
    let calls = std::fs::read_to_string(calls).unwrap().lines().count();
    assert!(calls < 20, "{calls}");
    assert!(nested.done.borrow().is_none());
}

#[test]
fn a_server_that_created_nothing_does_not_wait_for_an_engine_that_is_down() {
    let directory = tempfile::tempdir().unwrap();
    let engine = FakeEngine::start(|_| None);
    let nested = abandoned(directory.path(), by_proxy(directory.path(), &engine));
    assert!(within("it ends", nested.done()).ended.is_empty());
}

#[test]
fn an_engine_that_does_not_answer_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let engine = FakeEngine::start(|request| {
        if !request.contains("/containers/create") {
            std::thread::park();
        }
        Some((201, r#"{"Id":"x"}"#.to_owned()))
    });
    let means = by_proxy(directory.path(), &engine);
    let mut client = UnixStream::connect(directory.path().join("p")).unwrap();
    let request =
        "POST /containers/create HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();

    let nested = abandoned(directory.path(), means);
    let begun = std::time::Instant::now();
    let error = within("it tells", nested.survivors()).unwrap_err();
    assert!(error.contains(&engine.endpoint().to_string()), "{error}");
    assert!(begun.elapsed() < LOOK * 20, "{:?}", begun.elapsed());
}

/// The engine cancels no create whose client has gone, and it is busy.
#[test]
fn a_create_whose_connection_died_may_still_come_true() {
    let directory = tempfile::tempdir().unwrap();
    let looks = std::sync::atomic::AtomicU32::new(0);
    let gone = AtomicBool::new(false);
    let (removed, removal) = mpsc::channel();
    let engine = FakeEngine::start(move |request| {
        let json = |text: &str| Some((200, text.to_owned()));
        if request.contains("/containers/create") {
            return None;
        }
        if request.starts_with("DELETE") {
            gone.store(true, Ordering::SeqCst);
            removed.send(()).unwrap();
            return Some((204, String::new()));
        }
        match (gone.load(Ordering::SeqCst), request) {
            (true, request) if request.contains("/x/json") => {
                Some((404, r#"{"message":"none"}"#.to_owned()))
            }
            (_, request) if request.contains("/x/json") || request.contains("/images/") => {
                json("{}")
            }
            (gone, _) => {
                let is_there = !gone && looks.fetch_add(1, Ordering::SeqCst) > 0;
                match is_there {
                    true => json(&one_container()),
                    false => json("[]"),
                }
            }
        }
    });
    let means = by_proxy(directory.path(), &engine);
    let mut client = UnixStream::connect(directory.path().join("p")).unwrap();
    let request =
        "POST /containers/create HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    client.write_all(request.as_bytes()).unwrap();
    // Its client is not kept waiting.
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");

    let nested = abandoned(directory.path(), means);
    let removal = removal.recv_timeout(LIMIT);
    removal.expect("it is looked for again, and removed");
    let swept = within("it ends", nested.done());
    assert_eq!(swept.ended.len(), 1, "{swept:?}");
}

/// A process that exits with the last server leaves no ledger, for it is the last that has it.
#[test]
fn who_has_seen_the_end_is_the_last_with_the_ledger() {
    let engine = FakeEngine::start(|_| Some((200, "[]".to_owned())));
    for _ in 0..100 {
        let directory = tempfile::tempdir().unwrap();
        let nested = abandoned(directory.path(), by_proxy(directory.path(), &engine));
        within("it ends", nested.done());
        let nested = Arc::into_inner(nested);
        assert!(nested.is_some(), "the task that has said it still has it");
    }
}
