use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::thread;
use std::time::{Duration, SystemTime};

use super::*;

fn key_of(number: u8) -> Key {
    [number; 32]
}

fn open(home: &Path, specification: u8) -> Cache {
    Cache::open(Some(home), key_of(specification))
}

fn is_cached(cache: &Cache, number: u8) -> bool {
    cache.get(&key_of(number)).is_some()
}

#[test]
fn an_answer_is_found_by_specification_and_key() {
    let home = tempfile::tempdir().unwrap();
    let cache = open(home.path(), 1);
    assert_eq!(cache.get(&key_of(2)), None);
    cache.store(&key_of(2), b"two");
    cache.store(&key_of(3), b"three");
    let again = open(home.path(), 1);
    assert_eq!(again.get(&key_of(2)).as_deref(), Some(&b"two"[..]));
    assert_eq!(again.get(&key_of(3)).as_deref(), Some(&b"three"[..]));
    assert!(!is_cached(&open(home.path(), 9), 2));
    again.store(&key_of(2), b"new");
    assert_eq!(cache.get(&key_of(2)).as_deref(), Some(&b"new"[..]));
    again.forget(&key_of(2));
    assert!(!is_cached(&cache, 2) && is_cached(&cache, 3));
    let file = cache.file(&key_of(3)).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let files = fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(files, 1, "nothing is left beside it");
}

#[test]
fn concurrent_writers_lose_nothing_of_each_other() {
    let home = tempfile::tempdir().unwrap();
    let writers = (0..4).map(|writer| {
        let home = home.path().to_owned();
        thread::spawn(move || {
            let cache = open(&home, 1);
            for number in 0..10 {
                cache.store(&key_of(10 * writer + number), b"{}");
                cache.store(&key_of(99), &[writer; 5000]);
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
    let cache = open(home.path(), 1);
    let lost: Vec<_> = (0..40).filter(|&it| !is_cached(&cache, it)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let common = cache.get(&key_of(99)).unwrap();
    assert_eq!(common, [common[0]; 5000], "one of them, and whole");
}

#[test]
fn the_least_recently_used_answers_make_room() {
    let home = tempfile::tempdir().unwrap();
    let cache = open(home.path(), 0);
    cache.store(&key_of(0), b"{}");
    let directory = cache.directory.clone().unwrap();
    let files = || -> Vec<_> {
        let entries = fs::read_dir(&directory).unwrap();
        entries.map(|entry| entry.unwrap()).collect()
    };
    let put = |name: String, len: u64, age: u64| {
        let file = File::create(directory.join(name)).unwrap();
        file.set_len(len).unwrap();
        let age = Duration::from_secs(1000 + age);
        file.set_modified(SystemTime::now() - age).unwrap();
    };
    for number in 1..=2 * FILES_MAX as u64 {
        put(format!("{number:064x}"), 1, number);
    }
    // A crash left one of them, and one is not the cache's.
    let left = format!("{:064x}.0123456789abcdef", 7);
    put(left.clone(), 1, 9999);
    put("mine".to_owned(), 1, 9999);
    cache.store(&key_of(1), b"{}");
    let names: Vec<_> = files().iter().map(|entry| entry.file_name()).collect();
    assert_eq!(names.len(), FILES_MAX + 1, "and the one that is not ours");
    assert!(names.contains(&"mine".into()) && !names.contains(&left.as_str().into()));
    assert!(names.contains(&format!("{:064x}", 1).as_str().into()));
    assert!(is_cached(&cache, 0) && is_cached(&cache, 1));
    // By bytes.
    for number in 1..100 {
        put(format!("{number:064x}"), ANSWER_MAX as u64, number);
    }
    cache.store(&key_of(2), b"{}");
    let sizes = files().into_iter().map(|it| it.metadata().unwrap().len());
    let bytes: u64 = sizes.sum();
    assert!(bytes <= BYTES_MAX && bytes > BYTES_MAX / 2, "{bytes}");
    assert!((0..3).all(|number| is_cached(&cache, number)));
}

#[test]
fn an_oversized_answer_is_not_cached() {
    let home = tempfile::tempdir().unwrap();
    let cache = open(home.path(), 1);
    cache.store(&key_of(1), &[b'x'; ANSWER_MAX]);
    assert!(is_cached(&cache, 1));
    cache.store(&key_of(1), &[b'x'; ANSWER_MAX + 1]);
    assert!(!is_cached(&cache, 1), "not the old one either");
}

#[test]
fn only_private_files_and_directories_are_used() {
    let home = tempfile::tempdir().unwrap();
    let cache = open(home.path(), 1);
    cache.store(&key_of(2), b"{}");
    let file = cache.file(&key_of(2)).unwrap();
    fs::rename(&file, home.path().join("real")).unwrap();
    symlink(home.path().join("real"), &file).unwrap();
    assert!(!is_cached(&cache, 2));
    fs::remove_file(&file).unwrap();
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(!is_cached(&cache, 2));
    // A directory that others can enter.
    let directory = file.parent().unwrap();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(open(home.path(), 1).directory.is_none());
    assert!(Cache::open(None, key_of(1)).directory.is_none());
    assert!(open(Path::new("relative"), 1).directory.is_none());
}

#[test]
fn a_specification_is_a_value() {
    let of = |words: &[&str], directory: &str, env: &[(&str, &str)]| {
        let env = env
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        key::specification(&words, Path::new(directory), &env.collect())
    };
    let one = of(&["a", "b"], "/", &[("K", "v"), ("L", "w")]);
    assert_eq!(
        one,
        of(
            &["a", "b"],
            "/",
            &[
                ("L", "w"),
                ("SHLVL", "3"),
                ("TERM_SESSION_ID", "x"),
                ("K", "v")
            ]
        )
    );
    for other in [
        of(&["ab"], "/", &[("K", "v"), ("L", "w")]),
        of(&["a", "b", ""], "/", &[("K", "v"), ("L", "w")]),
        of(&["a", "b"], "/x", &[("K", "v"), ("L", "w")]),
        of(&["a", "b"], "/", &[("K", "other"), ("L", "w")]),
        of(&["a", "b"], "/", &[("K", "v")]),
        of(&["a", "b"], "/", &[("K", "vL"), ("", "w")]),
        // A server's own, which begin as the terminal's do.
        of(
            &["a", "b"],
            "/",
            &[("K", "v"), ("L", "w"), ("VSCODE_TOKEN", "x")],
        ),
        of(
            &["a", "b"],
            "/",
            &[("K", "v"), ("L", "w"), ("TERMINUS_SITE", "x")],
        ),
        of(
            &["a", "b"],
            "/",
            &[("K", "v"), ("L", "w"), ("SSH_HOST", "x")],
        ),
        of(
            &["a", "b"],
            "/",
            &[("K", "v"), ("L", "w"), ("ITERM_ORG", "x")],
        ),
    ] {
        assert_ne!(one, other);
    }
}

#[test]
fn a_request_is_a_value_without_what_is_of_one_request() {
    let of = |params: &str| key::request("tools/list", Some(params), None);
    let none = key::request("tools/list", None, None);
    assert_eq!(of("{}"), none);
    assert_eq!(
        of(r#"{"_meta":{"progressToken":3,"traceparent":"x"}}"#),
        none
    );
    let modern = of(
        r#"{"_meta":{"progressToken":3,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
    );
    assert_ne!(modern, none);
    assert_eq!(
        of(r#"{"a":{"y":1,"x":2},"b":1}"#),
        of(r#"{"b":1, "a":{"x":2,"y":1}}"#)
    );
    assert_ne!(key::request("tools/list", None, Some(&key_of(1))), none);
    assert_ne!(key::request("prompts/list", None, None), none);
    assert_eq!(of("[1"), None);
}
