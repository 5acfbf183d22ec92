//! The cases of process-wrap 10.0.1's own tests that mean a tree, by its std and its tokio.
//!
//! Not here: `nowrap` (there is no tree), Windows, the order and the panics of hooks, and the walk
//! through layers of wrappers (no wrapper is inside of this one).

use std::process::{ExitStatus, Output, Stdio};
use std::sync::LazyLock;
use std::thread;

use mcp_tree::Contained;
use nix::libc;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::runtime::Runtime;

use crate::support::runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(runtime);

fn is_gone(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None).is_err()
}

macro_rules! cases {
    ($module:ident, $of:ident, $($helpers:item)*) => {
        mod $module {
            use super::*;
            use ::process_wrap::$of::{ChildWrapper, CommandWrap};
            use ::$of::process::Command;

            type Child = Box<dyn ChildWrapper>;

            $($helpers)*

            fn contained(program: &str, args: &[&str]) -> CommandWrap {
                let mut command = Command::new(program);
                command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
                let mut command = CommandWrap::from(command);
                command.wrap(Contained::new());
                command
            }

            fn start(program: &str, args: &[&str]) -> Child {
                let _entered = RUNTIME.enter();
                contained(program, args).spawn().unwrap()
            }

            fn has_died(child: &mut Child) -> ExitStatus {
                loop {
                    match child.try_wait().unwrap() {
                        Some(status) => return status,
                        None => thread::yield_now(),
                    }
                }
            }

            #[test]
            fn id_same_as_inner() {
                let mut child = start("sleep", &["1000"]);
                assert_eq!(child.id(), child.inner().id());
                assert!(child.try_inner_child().is_none(), "nothing reaches the guardian");
                end(&mut child);
            }

            #[test]
            fn inner_read_stdout() {
                let mut child = start("echo", &["hello"]);
                assert_eq!(line(child.inner_mut().stdout().as_mut().unwrap()), "hello\n");
                assert!(wait(&mut child).success());
            }

            #[test]
            fn into_inner_write_stdin() {
                let mut child = start("cat", &[]).into_inner();
                write(child.stdin().as_mut().unwrap(), "hello\n");
                assert_eq!(line(child.stdout().as_mut().unwrap()), "hello\n");
                assert!(wait(&mut child).success());
            }

            #[test]
            fn kill_and_try_wait() {
                let mut child = start("sleep", &["1000"]);
                assert_eq!(child.try_wait().unwrap(), None);
                end(&mut child);
                let status = wait(&mut child);
                assert!(!status.success());
                for _ in 0..2 {
                    assert_eq!(child.try_wait().unwrap(), Some(status));
                }
            }

            #[test]
            fn signals() {
                let mut child = start("cat", &[]);
                child.signal(libc::SIGCONT).unwrap();
                write(child.stdin().as_mut().unwrap(), "alive\n");
                assert_eq!(line(child.stdout().as_mut().unwrap()), "alive\n");
                assert_eq!(child.try_wait().unwrap(), None);
                child.signal(libc::SIGTERM).unwrap();
                assert!(!has_died(&mut child).success());
            }

            #[test]
            fn try_wait_after_die() {
                assert!(has_died(&mut start("true", &[])).success());
            }

            #[test]
            fn try_wait_twice_after_sigterm() {
                let mut child = start("sleep", &["1000"]);
                assert_eq!(child.try_wait().unwrap(), None);
                child.signal(libc::SIGTERM).unwrap();
                let status = has_died(&mut child);
                assert_eq!(child.try_wait().unwrap(), Some(status));
            }

            #[test]
            fn wait_after_die() {
                let mut child = start("true", &[]);
                has_died(&mut child);
                assert!(wait(&mut child).success());
            }

            #[test]
            fn wait_twice() {
                let mut child = start("true", &[]);
                assert!(wait(&mut child).success() && wait(&mut child).success());
            }

            #[test]
            fn wait_twice_after_sigterm() {
                let mut child = start("sleep", &["1000"]);
                child.signal(libc::SIGTERM).unwrap();
                let status = wait(&mut child);
                assert!(!status.success());
                assert_eq!(wait(&mut child), status);
            }

            #[test]
            fn wait_with_output() {
                let output = output(start("echo", &["hello"]));
                assert!(output.status.success());
                assert_eq!(output.stdout, b"hello\n");
            }

            fn leader() -> (Child, i32, i32) {
                let mut child = start("sh", &["-c", "sleep 1000 & echo $$ $!; wait"]);
                let said = line(child.stdout().as_mut().unwrap());
                let pids: Vec<i32> = said.split_whitespace().flat_map(str::parse).collect();
                assert_eq!(Option::from(child.id()), Some(pids[0].cast_unsigned()));
                (child, pids[0], pids[1])
            }

            #[test]
            fn process_group_kill_leader() {
                let (mut child, leader, other) = leader();
                end(&mut child);
                assert!(is_gone(leader) && is_gone(other));
            }

            #[test]
            fn process_group_kill_group() {
                let (mut child, leader, other) = leader();
                killpg(Pid::from_raw(leader), Signal::SIGKILL).unwrap();
                assert!(!wait(&mut child).success());
                assert!(is_gone(leader) && is_gone(other));
            }

            #[test]
            fn spawn_with() {
                let _entered = RUNTIME.enter();
                let mut command = contained("echo", &["hello"]);
                let child = command.spawn_with(Command::spawn).unwrap();
                assert_eq!(output(child).stdout, b"hello\n");
            }
        }
    };
}

cases! {
    by_std, std,
    fn wait(child: &mut Child) -> ExitStatus {
        child.wait().unwrap()
    }
    fn end(child: &mut Child) {
        child.kill().unwrap();
    }
    fn output(child: Child) -> Output {
        child.wait_with_output().unwrap()
    }
    fn line(stdout: &mut std::process::ChildStdout) -> String {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        line
    }
    fn write(stdin: &mut std::process::ChildStdin, text: &str) {
        std::io::Write::write_all(stdin, text.as_bytes()).unwrap();
    }
}

cases! {
    by_tokio, tokio,
    fn wait(child: &mut Child) -> ExitStatus {
        RUNTIME.block_on(child.wait()).unwrap()
    }
    fn end(child: &mut Child) {
        RUNTIME.block_on(Box::into_pin(child.kill())).unwrap();
    }
    fn output(child: Child) -> Output {
        RUNTIME.block_on(Box::into_pin(child.wait_with_output())).unwrap()
    }
    fn line(stdout: &mut tokio::process::ChildStdout) -> String {
        use tokio::io::{AsyncBufReadExt as _, BufReader};
        let mut line = String::new();
        let mut stdout = BufReader::new(stdout);
        RUNTIME.block_on(stdout.read_line(&mut line)).unwrap();
        line
    }
    fn write(stdin: &mut tokio::process::ChildStdin, text: &str) {
        use tokio::io::AsyncWriteExt as _;
        RUNTIME.block_on(stdin.write_all(text.as_bytes())).unwrap();
    }
}
