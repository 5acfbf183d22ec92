use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use super::directory::{BYTES_MAX, FILES_MAX};
use super::*;

fn entry_of(answer: &str) -> Entry {
    Entry {
        is_error: false,
        answer: answer.into(),
    }
}

fn key_of(number: u8) -> Key {
    [number; 32]
}

/// The file of the specification of this number.
fn file_of(home: &Path, number: u8) -> PathBuf {
    home.join(".cache/mcp-contain/lazy")
        .join(file::hex(&key_of(number)))
}

#[test]
fn an_answer_is_found_again_by_its_key_only() {
    let home = tempfile::tempdir().unwrap();
    let cache = Cache::open(Some(home.path()), &key_of(1));
    assert_eq!(cache.get(&key_of(2)), None);
    cache.store(&key_of(2), entry_of(r#"{"tools": [ ]}"#));
    let error = Entry {
        is_error: true,
        answer: b"{\"code\":1}".into(),
    };
    cache.store(&key_of(3), error.clone());
    let again = Cache::open(Some(home.path()), &key_of(1));
    assert_eq!(again.get(&key_of(2)), Some(entry_of(r#"{"tools": [ ]}"#)));
    assert_eq!(again.get(&key_of(3)), Some(error));
    assert_eq!(
        Cache::open(Some(home.path()), &key_of(9)).get(&key_of(2)),
        None
    );
    again.forget(&key_of(2));
    assert_eq!(cache.get(&key_of(2)), None);
    assert!(cache.get(&key_of(3)).is_some());
    let file = file_of(home.path(), 1);
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(
        fs::read_dir(file.parent().unwrap()).unwrap().count(),
        2,
        "the lock, and nothing else beside it"
    );
}

#[test]
fn writers_at_once_lose_nothing_of_each_other() {
    let home = tempfile::tempdir().unwrap();
    let writers = (0..4).map(|writer| {
        let home = home.path().to_owned();
        thread::spawn(move || {
            let cache = Cache::open(Some(&home), &key_of(1));
            for number in 0..10 {
                let key = key_of(10 * writer + number);
                // Another one may have the lock for longer than it is waited for.
                while cache.get(&key).is_none() {
                    cache.store(&key, entry_of("{}"));
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
    let cache = Cache::open(Some(home.path()), &key_of(1));
    let lost: Vec<_> = (0..40)
        .filter(|&number| cache.get(&key_of(number)).is_none())
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn a_directory_is_bounded_and_what_was_used_longest_ago_goes() {
    let home = tempfile::tempdir().unwrap();
    let cache = Cache::open(Some(home.path()), &key_of(0));
    cache.store(&key_of(0), entry_of("{}"));
    let directory = file_of(home.path(), 0).parent().unwrap().to_owned();
    let files = || -> Vec<_> {
        let names = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap());
        names.filter(|entry| entry.file_name() != "lock").collect()
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
    // What was left by a crash, and what is somebody's own.
    put(format!("{:064x}.0123456789abcdef", 7), 1, 0);
    put("mine".to_owned(), 1, 0);
    // The oldest of all is used.
    let last = format!("{:064x}", 2 * FILES_MAX);
    let used = Cache {
        directory: directory::Directory::open(home.path()).ok(),
        name: last.clone(),
    };
    assert_eq!(used.get(&key_of(1)), None);
    cache.store(&key_of(1), entry_of("{}"));
    let names: Vec<_> = files().iter().map(|entry| entry.file_name()).collect();
    assert_eq!(names.len(), FILES_MAX + 1, "and the one that is not ours");
    for name in [
        last,
        format!("{:064x}", 1),
        file::hex(&key_of(0)),
        "mine".to_owned(),
    ] {
        assert!(names.contains(&name.as_str().into()), "{name}");
    }
    // By bytes.
    for number in 1..40 {
        put(format!("{number:064x}"), 4 << 20, number);
    }
    cache.store(&key_of(2), entry_of("{}"));
    let bytes: u64 = files()
        .iter()
        .map(|entry| entry.metadata().unwrap().len())
        .sum();
    assert!(bytes <= BYTES_MAX && bytes > BYTES_MAX / 2, "{bytes}");
    assert!(cache.get(&key_of(0)).is_some() && cache.get(&key_of(2)).is_some());
}

#[test]
fn a_cache_is_bounded() {
    let home = tempfile::tempdir().unwrap();
    let cache = Cache::open(Some(home.path()), &key_of(1));
    for number in 0..100 {
        cache.store(&key_of(number), entry_of("{}"));
    }
    let text = fs::read(file_of(home.path(), 1)).unwrap();
    let lines = text.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(lines, 1 + file::ENTRIES_MAX);
    assert!(cache.get(&key_of(99)).is_some() && cache.get(&key_of(0)).is_none());
    cache.store(
        &key_of(99),
        entry_of(&format!("\"{}\"", "x".repeat(ANSWER_MAX))),
    );
    assert_eq!(cache.get(&key_of(99)), None, "not the old one either");
    for number in 0..10 {
        cache.store(
            &key_of(number),
            entry_of(&format!("\"{}\"", "x".repeat(ANSWER_MAX - 2))),
        );
    }
    let len = fs::metadata(file_of(home.path(), 1)).unwrap().len();
    assert!(len <= file::BYTES_MAX as u64, "{len}");
    assert!(cache.get(&key_of(9)).is_some());
}

#[test]
fn what_is_not_ours_or_not_ours_alone_is_not_used() {
    let home = tempfile::tempdir().unwrap();
    let cache = Cache::open(Some(home.path()), &key_of(1));
    cache.store(&key_of(2), entry_of("{}"));
    let file = file_of(home.path(), 1);
    // Strange content, a FIFO, a link.
    let text = fs::read(&file).unwrap();
    for strange in [
        &b"\xff\n"[..],
        b"",
        b"mcp-contain/lazy/1\nzz result {}\n",
        b"mcp-contain/lazy/1\n \n",
    ] {
        fs::write(&file, strange).unwrap();
        assert_eq!(cache.get(&key_of(2)), None);
    }
    fs::rename(&file, home.path().join("real")).unwrap();
    fs::write(home.path().join("real"), text).unwrap();
    symlink(home.path().join("real"), &file).unwrap();
    assert_eq!(cache.get(&key_of(2)), None);
    fs::remove_file(&file).unwrap();
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(cache.get(&key_of(2)), None);
    // A directory that others can enter.
    let directory = file.parent().unwrap();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(
        Cache::open(Some(home.path()), &key_of(1))
            .directory
            .is_none()
    );
    assert!(Cache::open(None, &key_of(1)).directory.is_none());
    assert!(
        Cache::open(Some(Path::new("relative")), &key_of(1))
            .directory
            .is_none()
    );
}

#[test]
fn a_specification_is_a_value() {
    let of = |words: &[&str], directory: &str, env: &[(&str, &str)]| {
        let env = env
            .iter()
            .map(|(name, value)| (OsStr::new(*name), OsStr::new(*value)));
        key::specification(words.iter().map(OsStr::new), Path::new(directory), env)
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
    let of = |params: &str| key::request(b"tools/list", Some(params.as_bytes()), None);
    let none = key::request(b"tools/list", None, None);
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
    assert_ne!(key::request(b"tools/list", None, Some(&key_of(1))), none);
    assert_ne!(key::request(b"prompts/list", None, None), none);
    assert_eq!(of("[1"), None);
}
