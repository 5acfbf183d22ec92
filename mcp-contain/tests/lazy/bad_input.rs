//! Programs that cannot be executed, disks that are full, and caches that somebody has put something else into.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use mcp_lifecycle_conformance::copies::script;
use nix::sys::stat::Mode;
use serde_json::json;

use crate::host::{Server, Streams, wrapped};
use crate::session::Place;

#[test]
fn a_program_that_cannot_be_executed_is_told_as_without_a_relay() {
    let directory = tempfile::tempdir().unwrap();
    let program = |name: &str, text: &str, mode: u32| {
        let path = directory.path().join(name);
        script(&path, text, mode).unwrap();
        path
    };
    let programs = [
        (program("unreadable", "#!/bin/sh\n", 0), 126),
        (program("plain", "#!/bin/sh\n", 0o644), 126),
        (directory.path().to_owned(), 126),
        (program("alone", "#!/no/such/interpreter\n", 0o755), 126),
        (directory.path().join("missing"), 127),
    ];
    for (program, code) in programs {
        let ended = |options: &[&str]| {
            let words = [options, &[program.to_str().unwrap()]].concat();
            let mut server = Server::start(&mut wrapped(&words), Streams::Pipes);
            server.stdin = None;
            let (status, said) = server.ended();
            (status.code(), said)
        };
        let plain = ended(&[]);
        assert_eq!(plain.0, Some(code), "{plain:?}");
        assert_eq!(ended(&["--restart"]), plain);
    }
}

/// The directory of the cache.
fn cache(place: &Place) -> PathBuf {
    place.alive.file(".cache/mcp-contain/lazy")
}

/// A session that uses the server, whatever the cache is.
fn is_served(place: &mut Place, what: &str) {
    println!("{what}");
    let mut session = place.session(&["--lazy"]);
    session.open();
    let list = session.call("tools/list", json!({}));
    assert_eq!(list["result"]["tools"][0]["name"], "one", "{what}");
    session.work();
    place.alive.ready(1);
    assert!(session.end().success(), "{what}");
    place.alive.nobody_is_left();
}

#[test]
fn a_hostile_cache_costs_no_server() {
    let mut place = Place::new();
    place.learn();
    let cache = cache(&place);
    let names = fs::read_dir(&cache)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let name = names.into_iter().find(|name| name.len() == 64).unwrap();
    let file = cache.join(name);
    let text = fs::read(&file).unwrap();
    let remove = |path: &Path| match path.symlink_metadata() {
        Ok(seen) if seen.is_dir() => fs::remove_dir(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    };
    for path in [file.clone(), cache.join("lock")] {
        remove(&path);
        symlink("/dev/zero", &path).unwrap();
        is_served(&mut place, "a link");
        remove(&path);
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        is_served(&mut place, "a FIFO");
        remove(&path);
        fs::create_dir(&path).unwrap();
        is_served(&mut place, "a directory");
        remove(&path);
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        is_served(&mut place, "a file without end");
        remove(&path);
    }
    for (at, text) in [
        (0, &text[..text.len() / 2]),
        (7, &text),
        (0, &[0xff; 5000]),
        (0, b""),
    ] {
        fs::write(&file, text.get(at..).unwrap_or_default()).unwrap();
        is_served(&mut place, "another text");
    }
    // A relay that was stopped while it wrote.
    let lock = File::create(cache.join("lock")).unwrap();
    lock.lock().unwrap();
    fs::remove_file(&file).unwrap();
    is_served(&mut place, "a lock that is held");
    drop(lock);
    is_served(&mut place, "a lock that was let go");
    assert_eq!(
        fs::read(&file).unwrap().len(),
        text.len(),
        "it has learnt again"
    );
}

#[test]
fn a_home_whose_disk_is_full_costs_the_cache_and_no_server() {
    // As root, for it takes a file system of one page.
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can mount a file system of one page");
        return;
    }
    let mut place = Place::new();
    let home = place.alive.file(".cache");
    fs::create_dir(&home).unwrap();
    let mount = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        assert!(command.args(args).arg(&home).status().unwrap().success());
    };
    mount("mount", &["-t", "tmpfs", "-o", "size=4k,mode=700", "none"]);
    fs::write(home.join("full"), [0; 4096]).unwrap();
    is_served(&mut place, "a full disk");
    is_served(&mut place, "a full disk again");
    mount("umount", &[]);
}
