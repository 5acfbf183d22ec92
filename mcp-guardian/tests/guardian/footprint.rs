//! The cost of a guardian while nothing happens, and the traces that it leaves in the host.

use std::fs;

use crate::lab::{Guarded, Options, c, play};

/// A field of a file in /proc, as a number.
fn fields(file: &str, names: &[&str]) -> u64 {
    let text = fs::read_to_string(file).expect(file);
    let named = text
        .lines()
        .filter(|line| names.iter().any(|name| line.starts_with(name)));
    named
        .map(|line| {
            line.split_whitespace()
                .nth(1)
                .and_then(|number| number.parse::<u64>().ok())
                .expect("a number")
        })
        .sum()
}

/// What it has written itself. Pages of the program that were only read are every guardian's of this host: they count as private while no other one runs.
fn private_kib(pid: u32) -> u64 {
    fields(&format!("/proc/{pid}/smaps"), &["Anonymous:"])
}

/// Returns when the guardian sleeps in its poll.
fn wait_until_asleep(pid: u32) {
    while !fs::read_to_string(format!("/proc/{pid}/stat"))
        .expect("stat")
        .contains(") S ")
    {
        std::thread::yield_now();
    }
}

#[test]
fn an_idle_guardian_is_small_and_asleep() {
    let mut server = Guarded::start(&["/bin/cat"], &Options::default());
    server.started();
    let pid = server.handle.pid();
    wait_until_asleep(pid);
    let status = format!("/proc/{pid}/status");
    let switches = || {
        fields(
            &status,
            &["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"],
        )
    };
    let before = switches();
    for _ in 0..200 {
        server.write_stdin("x");
        server.read_stdout(1);
    }
    assert_eq!(
        switches(),
        before,
        "traffic between host and server does not wake it"
    );
    let private = private_kib(pid);
    println!("private memory of an idle guardian: {private} KiB");
    assert!(private <= 40, "{private} KiB");
    server.kill();
}

#[test]
fn a_large_environment_is_not_kept() {
    let env: Vec<_> = (0..64)
        .map(|number| c(format!("V{number}={}", "x".repeat(16 * 1024))))
        .collect();
    let server = Guarded::start(
        &["/bin/cat"],
        &Options {
            env,
            ..Options::default()
        },
    );
    server.started();
    let pid = server.handle.pid();
    wait_until_asleep(pid);
    let private = private_kib(pid);
    println!("private memory with a megabyte of environment: {private} KiB");
    assert!(private <= 64, "{private} KiB");
    let environ = fs::read(format!("/proc/{pid}/environ")).expect("environ");
    assert!(environ.iter().filter(|&&byte| byte == b'x').count() < 64 * 1024);
    server.kill();
}

#[test]
fn it_shows_its_name() {
    let server = Guarded::start(&["/bin/cat"], &Options::default());
    server.started();
    wait_until_asleep(server.handle.pid());
    assert_eq!(
        fs::read_to_string(format!("/proc/{}/comm", server.handle.pid())).expect("comm"),
        "mcp-guardian\n"
    );
    server.kill();
}

/// A host that starts and ends servers in every way, alone in its process, and counts what is left.
#[test]
#[ignore = "a role"]
fn census() {
    let count = || {
        (
            fs::read_dir("/proc/self/fd").expect("fd").count(),
            fs::read_to_string("/proc/thread-self/children").unwrap_or_default(),
        )
    };
    let cycle = || {
        let server = Guarded::sh("exit 0", &Options::default());
        server.started();
        server.gone();
        let server = Guarded::sh("setsid sleep 3600 & sleep 3600", &Options::default());
        server.started();
        server.kill();
        let server = Guarded::start(&["/does/not/exist"], &Options::default());
        server.hear();
        server.reaped();
    };
    // The image stays open from the first start on.
    cycle();
    let before = count();
    (0..50).for_each(|_| cycle());
    assert_eq!(count(), before);
}

#[test]
fn nothing_accumulates_in_the_host() {
    let mut host = play("footprint::census", &[]);
    drop(host.stdin.take());
    let output = host.wait_with_output().expect("wait");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
