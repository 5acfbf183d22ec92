//! However the host ends, its servers end too, with everything they started.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use mcp_lifecycle_core::client::{LifecycleClient, ServerConfig};
use mcp_lifecycle_core::launch::ServerSpec;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid, getpid};

use crate::support::{self, Rig, launcher, runtime};

const ENDING: &str = "MCP_TEST_HOST_ENDING";
const ALIVE: &str = "MCP_TEST_HOST_ALIVE";

/// A host that starts a deaf server with a helper in a session of its own, and
/// waits for the word to end.
fn host(rig: &Rig, ending: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["host_ends::role", "--exact", "--ignored", "--nocapture"])
        .env(ENDING, ending)
        .env(ALIVE, rig.alive.address())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // As from a shell: the host leads the group that a terminal signals.
        .process_group(0)
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "the role of the host in the tests below"]
fn role() {
    let Ok(ending) = std::env::var(ENDING) else {
        return;
    };
    let runtime = runtime();
    let client = runtime.block_on(async {
        let args = ["setsid", "--ignore-eof", "--ignore-term", "--alive"];
        let spec = ServerSpec::builder("server", env!("CARGO_BIN_EXE_mcp-fixture"))
            .args(args)
            .arg(std::env::var(ALIVE).unwrap());
        let spec = spec.build().unwrap();
        LifecycleClient::start(ServerConfig::new(launcher(), spec))
            .await
            .unwrap()
    });
    let _ = std::io::stdin().read(&mut [0]);
    match ending.as_str() {
        "exit" => std::process::exit(0),
        "abort" => std::process::abort(),
        "panic" => panic!("on purpose, with {client:?}"),
        "runtime" => {
            drop(runtime);
            std::mem::forget(client);
        }
        signal => kill(getpid(), signal.parse::<Signal>().unwrap()).unwrap(),
    }
    std::process::exit(0);
}

fn ends(ending: &str) {
    let rig = Rig::new(ending);
    let mut host = host(&rig, ending);
    let pid = Pid::from_raw(host.id() as i32);
    rig.alive.block_on(async {
        let server = rig.accept("server").await;
        rig.accept("setsid").await;
        // What a terminal sends to the host's group misses the server.
        let group = getpgid(Some(Pid::from_raw(server.pid() as i32))).unwrap();
        assert_ne!(group, getpgid(Some(pid)).unwrap());
    });
    host.stdin.take().unwrap().write_all(b"\n").unwrap();
    let dead = rig.alive.expect_all_dead(support::LIMIT);
    rig.alive
        .block_on(dead)
        .unwrap_or_else(|error| panic!("{error}"));
    host.wait().unwrap();
    rig.finish();
}

#[test]
fn a_host_that_exits() {
    ends("exit");
}

#[test]
fn a_host_that_aborts() {
    ends("abort");
}

#[test]
fn a_host_that_panics() {
    ends("panic");
}

#[test]
fn a_host_that_drops_its_runtime_and_forgets_its_client() {
    ends("runtime");
}

#[test]
fn a_host_that_is_interrupted_from_its_terminal() {
    ends("SIGINT");
}

#[test]
fn a_host_whose_terminal_closes() {
    ends("SIGHUP");
}

#[test]
fn a_host_that_is_asked_to_end_and_does_not_listen() {
    ends("SIGTERM");
}

#[test]
fn a_host_that_is_killed_as_the_oom_killer_does() {
    ends("SIGKILL");
}
