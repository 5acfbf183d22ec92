//! `--watch`: a server whose files have changed is replaced.

use std::fs::{self, File};
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use crate::host::{DEADLINE, Streams, wrapped};
use crate::session::{Place, Session};

/// A place with files, and a session with a server that they restart.
fn watched(option: &str) -> (Place, Session) {
    let mut place = Place::new();
    for directory in ["src/deep", "src/node_modules", "src/.hidden", "other/deep"] {
        fs::create_dir_all(place.alive.file(directory)).unwrap();
    }
    place.write("config", "old");
    let paths = ["src", "config"].map(|name| place.alive.file(name));
    let [src, config] = paths.each_ref().map(|path| path.to_str().unwrap());
    let mut session = place.session(&[option, "--watch", src, "--watch", config]);
    session.open();
    place.alive.ready(1);
    (place, session)
}

/// Moves a new file there, which is one change.
fn replace(place: &Place, name: &str) {
    place.write("new", "new");
    fs::rename(place.alive.file("new"), place.alive.file(name)).unwrap();
}

/// The number of servers so far, by their handshakes.
fn starts(place: &Place) -> usize {
    let heard = fs::read_to_string(place.alive.file("heard")).unwrap();
    heard.matches(r#""method":"initialize""#).count()
}

/// Calls until another server answers. One that is young is started by a call.
fn is_replaced(place: &Place, session: &mut Session, before: usize) {
    let end = Instant::now() + DEADLINE;
    while starts(place) == before {
        session.call("tools/call", json!({"name": "one"}));
        assert!(Instant::now() < end, "it is not replaced");
    }
    session.work();
}

#[test]
fn a_server_is_restarted_by_each_change_of_its_files() {
    type Change = fn(&Place);
    let changes: [(&str, Change); 8] = [
        ("a file", |place| replace(place, "src/deep/file")),
        ("its time", |place| {
            let file = File::open(place.alive.file("src/deep/file")).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }),
        ("a directory", |place| {
            fs::create_dir(place.alive.file("src/new")).unwrap();
        }),
        ("a file in it", |place| replace(place, "src/new/file")),
        ("a file by itself", |place| replace(place, "config")),
        ("all is away", |place| {
            fs::rename(place.alive.file("src"), place.alive.file("away")).unwrap();
        }),
        ("all is another", |place| {
            fs::rename(place.alive.file("other"), place.alive.file("src")).unwrap();
        }),
        ("a file of that", |place| replace(place, "src/deep/file")),
    ];
    for option in ["--restart", "--lazy"] {
        let (mut place, mut session) = watched(option);
        for (what, change) in changes {
            println!("{option}: {what}");
            let before = starts(&place);
            change(&place);
            is_replaced(&place, &mut session, before);
        }
        assert!(session.end().success());
        place.alive.nobody_is_left();
    }
}

#[test]
fn what_is_left_out_restarts_nothing() {
    let (mut place, mut session) = watched("--restart");
    for name in [
        "src/node_modules/file",
        "src/.hidden/file",
        "src/.file",
        "src/target",
        "src/deep/__pycache__",
        "beside",
        "other/file",
    ] {
        replace(&place, name);
    }
    // Others are restarted meanwhile, and later.
    for _ in 0..2 {
        let (control, mut other) = watched("--restart");
        replace(&control, "src/file");
        is_replaced(&control, &mut other, 1);
        assert!(other.end().success());
    }
    session.work();
    assert_eq!(starts(&place), 1);
    assert!(session.end().success());
    place.alive.nobody_is_left();
}

#[test]
fn a_host_is_told_of_lists_that_its_changed_server_has() {
    let (mut place, mut session) = watched("--restart");
    let begin = Instant::now();
    session.call("tools/list", json!({}));
    // A younger one may have changed the files itself.
    while begin.elapsed() < Duration::from_millis(5_100) {
        session.work();
    }
    place.write("tools", r#"{"tools":[{"name":"two"}]}"#);
    replace(&place, "src/file");
    assert!(session.line().contains("tools/list_changed"));
    session.work();
    assert!(session.end().success());
    place.alive.nobody_is_left();
}

#[test]
fn what_cannot_be_watched_is_refused() {
    for (words, says) in [
        (&["--watch", "/", "cat"][..], "<--lazy|--restart>"),
        (
            &["--lazy", "--watch", "/nowhere", "cat"],
            "cannot watch /nowhere: No such file",
        ),
    ] {
        let server = crate::host::Server::start(&mut wrapped(words), Streams::Pipes);
        let (status, said) = server.ended();
        assert_eq!(status.code(), Some(125), "{said}");
        assert!(said.contains(says), "{said}");
    }
}
