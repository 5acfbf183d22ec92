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
    let files = fs::read_dir(&cache).unwrap();
    let files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    let texts: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    let remove = |path: &Path| match path.symlink_metadata() {
        Ok(seen) if seen.is_dir() => fs::remove_dir(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    };
    let mut is_served_with = |what: &str, put: &dyn Fn(&Path)| {
        for path in &files {
            remove(path);
            put(path);
        }
        is_served(&mut place, what);
    };
    is_served_with("a link", &|path| symlink("/dev/zero", path).unwrap());
    is_served_with("a FIFO", &|path| {
        nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap();
    });
    is_served_with("a directory", &|path| fs::create_dir(path).unwrap());
    is_served_with("a file without end", &|path| {
        File::create(path).unwrap().set_len(1 << 40).unwrap();
    });
    let text = &texts[0];
    for other in [
        &text[..text.len() / 2],
        &text[7..],
        &[0xff; 5000],
        b"",
        b"{}",
    ] {
        is_served_with("another text", &|path| fs::write(path, other).unwrap());
    }
    for (file, text) in files.iter().zip(texts) {
        assert_eq!(fs::read(file).unwrap(), text, "it has learnt again");
    }
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
