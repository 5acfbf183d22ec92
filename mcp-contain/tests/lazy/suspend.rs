//! A server that reads nothing after the machine was suspended. The relay's clock alone is not the real one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::host::Streams;
use crate::session::{Place, Session};

/// The clock that counts suspends is an hour later once a file is there.
const CLOCK: &str = r#"
unsafe extern "C" {
    fn syscall(number: i64, ...) -> i64;
    fn getenv(name: *const u8) -> *const u8;
    fn access(path: *const u8, mode: i32) -> i32;
}
const NUMBER: i64 = if cfg!(target_arch = "x86_64") { 228 } else { 113 };
const BOOTTIME: i32 = 7;
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: i32, time: *mut i64) -> i32 {
    let result = unsafe { syscall(NUMBER, clock as i64, time) } as i32;
    let file = unsafe { getenv(c"SUSPENDED".as_ptr().cast()) };
    if result == 0 && clock == BOOTTIME && !file.is_null() && unsafe { access(file, 0) } == 0 {
        unsafe { *time += 3600 };
    }
    result
}
"#;

fn clock(place: &Place) -> PathBuf {
    let [source, clock] = ["clock.rs", "clock.so"].map(|name| place.alive.file(name));
    std::fs::write(&source, CLOCK).unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "--crate-type=cdylib", "-Cpanic=abort"]);
    let done = rustc.arg("-o").arg(&clock).arg(&source).output();
    let done = done.expect("rustc");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    clock
}

fn session(place: &mut Place, clock: &Path) -> Session {
    let mut command = place.command(&["--restart"]);
    command.env("LD_PRELOAD", clock);
    command.env("SUSPENDED", place.alive.file("suspended"));
    let mut session = Session::of(&mut command, Streams::Pipes);
    session.patience = Duration::from_secs(180);
    session.open();
    place.alive.ready(1);
    session
}

#[test]
fn a_server_that_reads_nothing_after_a_suspend_is_restarted() {
    let [mut stuck, mut works, mut awake] = [0; 3].map(|_| Place::new());
    let clock = clock(&stuck);
    let mut sessions = [&mut stuck, &mut works, &mut awake].map(|place| session(place, &clock));
    let [first, second, third] = &mut sessions;
    for session in [&mut *first, &mut *third] {
        session.call("tools/call", json!({"name": "stuck"}));
    }
    for place in [&stuck, &works] {
        place.write("suspended", "");
    }
    // It has read its request, and may be at work.
    second.ask("tools/call", json!({"name": "silent"}));
    works.alive.ready(1);
    // There was no suspend.
    third.ask("tools/call", json!({"name": "one"}));
    let unread = first.ask("tools/call", json!({"name": "one"}));
    let refused: Value = serde_json::from_str(&first.line()).unwrap();
    assert_eq!(refused["id"], unread, "{refused}");
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("restarted before it answered"), "{why}");
    stuck.alive.ready(1);
    first.work();
    for session in [second, third] {
        assert_eq!(session.next_line(), None, "no answer, and no error");
    }
    for session in sessions {
        session.killed_by(nix::sys::signal::Signal::SIGTERM);
    }
    for mut place in [stuck, works, awake] {
        place.alive.nobody_is_left();
    }
}
