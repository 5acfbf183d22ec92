//! What the verbs say of containers where an engine cannot be asked.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

use serde_json::Value;

use crate::{PROGRAM, Place};

/// A verb, with the engine at this socket.
fn verb(place: &Place, socket: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = place.command(PROGRAM);
    command.env("DOCKER_HOST", format!("unix://{}", socket.display()));
    let output = command.args(words).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), said)
}

/// What other tests do at the time may be unknown as well.
fn names_the_engine(unknown: &Value) -> bool {
    let is_it = |it: &Value| {
        it["what"]
            .as_str()
            .is_some_and(|what| what.starts_with("engine unix://"))
    };
    unknown.as_array().unwrap().iter().any(is_it)
}

/// One that hangs up on whoever asks.
fn silent(socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    // Ends with the test process.
    thread::spawn(move || listener.incoming().for_each(drop));
}

#[test]
fn an_engine_that_does_not_answer_is_not_one_without_containers() {
    let place = Place::new("silent-engine");
    let socket = place.directory.path().join("engine");
    silent(&socket);
    for words in [&["reap"][..], &["reap", "--dry-run"]] {
        let (code, said) = verb(&place, &socket, words);
        assert_eq!(code, Some(1), "{words:?}: {said}");
        assert!(said.contains("Containers at unix://"), "{said}");
        assert!(
            said.to_lowercase()
                .contains("not everything could be looked at"),
            "{said}"
        );
        let (code, said) = verb(&place, &socket, &[words, &["--json"]].concat());
        let said: Value = serde_json::from_str(&said).unwrap();
        assert!(
            code == Some(1) && names_the_engine(&said["unknown"]),
            "{said:#}"
        );
    }
    let (code, said) = verb(&place, &socket, &["doctor"]);
    assert!(
        code == Some(0) && said.contains("Containers at unix://"),
        "{said}"
    );
    let first = said.lines().next().unwrap();
    assert!(
        first
            .to_lowercase()
            .contains("not everything could be looked at"),
        "{first}"
    );
    let (_, said) = verb(&place, &socket, &["doctor", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert!(names_the_engine(&said["left"]["unknown"]), "{said:#}");
}

#[test]
fn an_engine_that_is_not_there_has_no_containers_unless_a_dead_host_has_used_it() {
    let place = Place::new("no-engine");
    let socket = place.directory.path().join("engine");
    let (code, said) = verb(&place, &socket, &["reap"]);
    assert!(
        code == Some(0) && said.contains("Nothing was left behind"),
        "{said}"
    );
    let ledgers = place.directory.path().join("state/docker");
    let mut private = DirBuilder::new();
    private
        .mode(0o700)
        .recursive(true)
        .create(&ledgers)
        .unwrap();
    let ledger = ledgers.join("0123456789abcdef0123456789abcdef.ledger");
    std::fs::write(&ledger, format!("unix://{}\n", socket.display())).unwrap();
    for words in [&["reap", "--dry-run"][..], &["reap"]] {
        let (code, said) = verb(&place, &socket, words);
        assert!(
            code == Some(1) && said.contains("Containers at unix://"),
            "{said}"
        );
    }
    assert!(ledger.exists(), "it is looked for again");
    let url = format!("unix://{}", socket.display());
    let (_, said) = verb(&place, &socket, &["doctor"]);
    assert_eq!(
        said.matches(&url).count(),
        2,
        "the second is in the command: {said}"
    );
    let command = format!("mcp-contain reap --forget {url}");
    assert!(said.contains(&command), "{said}");
    // An engine that may be there is not forgotten.
    silent(&socket);
    let (code, _) = verb(&place, &socket, &["reap", "--forget", &url]);
    assert!(code == Some(1) && ledger.exists());
    std::fs::remove_file(&socket).unwrap();
    let (code, said) = verb(&place, &socket, &["reap", "--forget", &url]);
    assert!(
        code == Some(0) && said.contains("Forgot 1 record"),
        "{said}"
    );
    assert!(!ledger.exists());
    let (code, said) = verb(&place, &socket, &["reap"]);
    assert!(
        code == Some(0) && said.contains("Nothing was left behind"),
        "{said}"
    );
}
