//! A command behind `Contained`: it keeps all that was set for it, and its child is the tree.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use mcp_lifecycle_conformance::census::Census;
use mcp_tree::Contained;
use nix::libc;
use nix::unistd::{geteuid, getpgrp, getsid};
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup, ProcessSession};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::support::{LIMIT, Rig, test};

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn contained(command: Command) -> CommandWrap {
    let mut command = CommandWrap::from(command);
    command.wrap(Contained::new());
    command
}

fn start(command: Command) -> Box<dyn ChildWrapper> {
    contained(command).spawn().unwrap()
}

async fn output(command: Command) -> String {
    of(&mut contained(command)).await
}

async fn of(command: &mut CommandWrap) -> String {
    let output = command.spawn().unwrap().wait_with_output();
    let output = Box::into_pin(output).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

async fn kill(child: &mut Box<dyn ChildWrapper>) {
    Box::into_pin(child.kill()).await.unwrap();
}

fn fixture(rig: &Rig, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-fixture"));
    command
        .args(args)
        .args(["--alive".to_owned(), rig.alive.address()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    command
}

#[test]
fn the_program_has_the_environment_and_directory_of_its_command() {
    test("environment", async |_| {
        let mut command = sh("/usr/bin/env; pwd");
        command.env_clear().env("ONLY", "this").current_dir("/usr");
        command.env("MCP_LIFECYCLE_KEEP", "all of it");
        let said = output(command).await;
        let mut names: Vec<_> = said
            .lines()
            .filter_map(|line| line.split('=').next())
            .collect();
        names.sort_unstable();
        // The shell adds its own.
        names.retain(|name| !["OLDPWD", "PWD", "SHLVL", "_"].contains(name));
        assert_eq!(names, ["/usr", "MCP_LIFECYCLE_ID", "ONLY"], "{said}");
    });
}

#[test]
fn streams_are_those_of_the_command() {
    test("streams", async |_| {
        let mut file = tempfile::tempfile().unwrap();
        let mut command = sh("cat >&2; ls -l /proc/self/fd/0");
        command
            .stdin(Stdio::null())
            .stderr(file.try_clone().unwrap());
        assert!(output(command).await.contains("/dev/null"));

        let mut child = start(sh("cat"));
        child
            .inner_mut()
            .stdin()
            .as_mut()
            .unwrap()
            .write_all(b"hello")
            .await
            .unwrap();
        drop(child.stdin().take());
        let mut said = String::new();
        child
            .stdout()
            .as_mut()
            .unwrap()
            .read_to_string(&mut said)
            .await
            .unwrap();
        assert_eq!(said, "hello");
        assert!(child.wait().await.unwrap().success());
        let mut error = String::new();
        io::Read::read_to_string(&mut file, &mut error).unwrap();
        assert_eq!(error, "");
    });
}

#[test]
fn user_and_hooks_are_those_of_the_command() {
    test("user", async |_| {
        let mut command = sh("id -u; umask");
        // SAFETY: one system call.
        unsafe {
            command.pre_exec(|| {
                nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o27));
                Ok(())
            })
        };
        let uid = if geteuid().is_root() {
            65534
        } else {
            geteuid().as_raw()
        };
        if geteuid().is_root() {
            command.uid(uid).gid(uid);
        }
        assert_eq!(output(command).await, format!("{uid}\n0027\n"));
    });
}

#[test]
fn the_program_leads_a_group_in_the_session_of_its_command() {
    // Process, group, session.
    const SCRIPT: &str = "cut -d' ' -f1,5,6 /proc/$$/stat";
    test("group", async |_| {
        let ids = |said: String| -> Vec<i32> {
            said.split_whitespace()
                .map(|id| id.parse().unwrap())
                .collect()
        };
        let (group, session) = (getpgrp().as_raw(), getsid(None).unwrap().as_raw());
        let plain = ids(output(sh(SCRIPT)).await);
        assert_eq!(plain, [plain[0], plain[0], session]);
        assert_ne!(plain[1], group);
        let mut command = CommandWrap::from(sh(SCRIPT));
        command.wrap(ProcessGroup::leader()).wrap(Contained::new());
        let leads = ids(of(&mut command).await);
        assert_eq!(leads, [leads[0], leads[0], session]);
        let mut command = CommandWrap::from(sh(SCRIPT));
        command.wrap(ProcessSession).wrap(Contained::new());
        let leads = ids(of(&mut command).await);
        assert_eq!(leads[..2], [leads[0], leads[0]]);
        assert_ne!(leads[2], session);
    });
}

#[test]
fn a_program_that_cannot_be_executed_is_the_error_of_spawn_and_leaves_nothing() {
    test("missing", async |_| {
        let census = Census::take().without_threads().allowing_less();
        for _ in 0..3 {
            let mut command = contained(Command::new("/nonexistent/program"));
            let outcome = {
                let contained = command.get_wrap::<Contained>().unwrap();
                contained.outcome()
            };
            for _ in 0..2 {
                let error = command.spawn().unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::NotFound);
            }
            drop(command);
            outcome.await.unwrap_err();
            let mut command = sh("true");
            command.current_dir("/nonexistent");
            let error = contained(command).spawn().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
        census.settle_async(LIMIT).await.unwrap();
    });
}

#[test]
fn a_command_can_be_started_again() {
    test("again", async |_| {
        let mut command = contained(sh("echo $MCP_LIFECYCLE_ID"));
        let first = of(&mut command).await;
        assert_ne!(first, of(&mut command).await);
        let mut both = [command.spawn().unwrap(), command.spawn().unwrap()];
        for child in &mut both {
            assert!(child.wait().await.unwrap().success());
        }
    });
}

#[test]
fn a_drop_does_not_kill_the_guardian_before_its_server() {
    for contained_first in [true, false] {
        test("kill on drop", async |rig| {
            let mut command = CommandWrap::from(fixture(rig, &["wiped-env", "--ignore-eof"]));
            let contained = Contained::new();
            let outcome = contained.outcome();
            if contained_first {
                command.wrap(contained).wrap(KillOnDrop);
            } else {
                command.wrap(KillOnDrop).wrap(contained);
            }
            let child = command.spawn().unwrap();
            rig.accept("wiped-env").await;
            drop(child);
            let report = outcome.await.unwrap();
            let evidence = format!("{:?}", report.gone.evidence);
            assert!(evidence.contains("Reaped"), "by the guardian: {report:?}");
        });
    }
}

#[test]
fn waiting_twice_tells_the_same() {
    test("twice", async |_| {
        let mut child = start(sh("read line; exit 3"));
        assert_eq!(child.try_wait().unwrap(), None);
        let id = child.id().unwrap();
        assert_eq!(child.inner().id(), Some(id));
        // A wait closes its input.
        let status = child.wait().await.unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!(child.wait().await.unwrap(), status);
        assert_eq!(child.try_wait().unwrap(), Some(status));
        assert_eq!(child.id(), None);
        assert!(child.signal(libc::SIGTERM).is_ok());
        assert!(child.start_kill().is_ok());
    });
}

#[test]
fn signals_arrive_and_the_status_has_them() {
    test("signals", async |_| {
        for signal in [libc::SIGTERM, libc::SIGUSR1, libc::SIGKILL] {
            let mut child = start(sh("exec sleep 1000"));
            child.signal(signal).unwrap();
            let status = child.wait().await.unwrap();
            assert_eq!(status.signal(), Some(signal));
            assert_eq!(child.try_wait().unwrap(), Some(status));
        }
        let mut child = start(sh("exec sleep 1000"));
        kill(&mut child).await;
        let status = child.try_wait().unwrap().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL));
    });
}

/// The program exits; what it has left is not over before the wait is.
#[test]
fn a_wait_is_for_the_tree() {
    test("tree", async |_| {
        let mut child = start(sh("setsid sleep 1000 >/dev/null 2>&1 & exit 7"));
        // Its end is that of the program.
        let output = child.stdout().as_mut().unwrap();
        output.read_to_end(&mut Vec::new()).await.unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        kill(&mut child).await;
        assert_eq!(child.wait().await.unwrap().code(), Some(7));
    });
}
