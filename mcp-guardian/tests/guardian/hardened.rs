//! Servers that are restricted to rules.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use mcp_guardian::hardened::{refusal, rules};
use mcp_guardian::program::protocol::Stage;
use nix::errno::Errno;

use crate::lab::{Alive, Guarded, Options, Said};

/// Attacks on its parent, what it may do, and what it may write. Exits by the number of what was wrong.
const RESISTS: &str = "trap '' TERM
kill -STOP $PPID && exit 1
kill -9 $PPID && exit 2
sleep 1000 & kill -9 $! && wait $!; [ $? = 137 ] || exit 3
for at in $(sed -n 's/.* [0-9]*:[0-9]* [^ ]* \\([^ ]*\\) .* - cgroup.*/\\1/p' /proc/self/mountinfo); do
    [ -e $at/cgroup.procs ] || exit 4
    (echo 0 >>$at/cgroup.procs) && exit 5
    mkdir $at/resists && exit 6
done
echo written >\"$WRITABLE/one\" && mkdir \"$WRITABLE/two\" && mv \"$WRITABLE/one\" \"$WRITABLE/two\" || exit 7
echo >/dev/null || exit 8
(ulimit -n 64) || exit 9
grep -q 'NoNewPrivs:.1' /proc/self/status || exit 10
setsid sh -c 'printf . >&9; exec sleep 1000' &
printf . >&9; wait; wait";

#[test]
fn a_hardened_server_reaches_nothing_outside_and_is_ended() {
    // A list of all that is writable allows no cgroup either.
    let all = ["/".into()];
    for writable in [None, Some(&all[..])] {
        is_held(writable);
    }
}

fn is_held(listed: Option<&[PathBuf]>) {
    let rules = match refusal(true, false) {
        None => rules(true, listed).expect("rules").expect("some"),
        Some(why) => {
            let error = rules(true, None).expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
            return println!("NOT TESTED: {why}");
        }
    };
    let writable = tempfile::tempdir().expect("tempdir");
    let mut alive = Alive::new();
    let mut options = Options {
        rules: Some(rules.as_fd()),
        ..Options::default()
    };
    let variable = format!("WRITABLE={}", writable.path().display());
    options.env.push(crate::lab::c(variable));
    let server = Guarded::sh(&alive.script(RESISTS), &options);
    server.started();
    alive.ready(2);
    assert!(writable.path().join("two/one").exists());
    let swept = server.kill();
    assert!(swept.count >= 1, "{swept:?}");
    alive.nobody_is_left();
}

#[test]
fn rules_that_are_none_start_nothing() {
    let file = fs::File::open("/dev/null").expect("open");
    let options = Options {
        rules: Some(file.as_fd()),
        ..Options::default()
    };
    let mut server = Guarded::sh("echo started", &options);
    let said = server.hear();
    let is_refused = matches!(said, Said::ExecFailed(Stage::Restrict, _));
    assert!(is_refused, "{said:?}");
    let errno = Errno::EBADFD as i32;
    assert!(refusal(true, false).is_some() || said == Said::ExecFailed(Stage::Restrict, errno));
    assert_eq!(server.reaped().code(), Some(127));
    assert_eq!(server.read_stdout_to_end(), "");
}
