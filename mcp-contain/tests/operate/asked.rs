//! Programs that a companion executes: an engine without a service is asked by its own program.

use std::fs;
use std::process::Command;

use mcp_lifecycle_conformance::copies;
use nix::sys::signal::Signal;

use crate::{Place, ends};

/// Says what it has of signals when it is asked for containers, and has none. As a server it says that it is ready. No shell: some of them unblock all signals.
const PODMAN: &str = r#"#!/usr/bin/perl
$| = 1;
if ($ARGV[0] eq 'ps') {
  open(my $status, '<', '/proc/self/status') or die;
  open(my $asked, '>', 'asked') or die;
  print $asked grep { /^Sig(Blk|Ign):/ } <$status>;
} elsif ($ARGV[0] eq 'run') {
  print "ready\n";
  1 while <STDIN>;
}
"#;

/// The signals of a line, as bits.
fn bits(said: &str, name: &str) -> u64 {
    let line = said.lines().find_map(|line| line.strip_prefix(name));
    u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
}

fn is_in(bits: u64, signal: Signal) -> bool {
    bits & (1 << (signal as i32 - 1)) != 0
}

/// The same command, by a host that ignores SIGCHLD.
fn ignoring(command: &Command) -> Command {
    let mut by_env = Command::new("env");
    by_env
        .arg("--ignore-signal=CHLD")
        .arg(command.get_program());
    let changed = command.get_envs();
    by_env.envs(changed.filter_map(|(name, value)| Some((name, value?))));
    by_env.current_dir(command.get_current_dir().unwrap());
    by_env
}

#[test]
fn what_a_companion_executes_is_waited_for_and_can_be_asked_to_end() {
    let place = Place::new("asked");
    let podman = place.directory.path().join("podman");
    copies::script(&podman, PODMAN, 0o755).unwrap();
    for is_ignored in [false, true] {
        let (mut shim, stdout) = place.start_by(&[], |command| {
            if is_ignored {
                *command = ignoring(command);
            }
            command
                .arg("--grace=60s")
                .arg(&podman)
                .args(["run", "-i", "image"]);
        });
        drop(shim.stdin.take());
        ends(stdout);
        assert_eq!(shim.wait().unwrap().code(), Some(0), "{is_ignored}");
        let asked = place.directory.path().join("asked");
        let said = fs::read_to_string(&asked).unwrap();
        fs::remove_file(asked).unwrap();
        let (blocked, ignored) = (bits(&said, "SigBlk:"), bits(&said, "SigIgn:"));
        assert!(!is_in(ignored, Signal::SIGCHLD), "{said}");
        for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGCHLD] {
            assert!(!is_in(blocked, signal), "{signal}: {said}");
        }
    }
}
