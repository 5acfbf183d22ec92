//! Polite signals and the whole tree on a peer that supports neither: a shell script, started
//! through the peer, that signals and sweeps by identity.
//!
//! A server is marked by a random cookie in its environment, which all its children inherit. The
//! script finds the marked processes and their descendants in `/proc`, and compares the start time
//! right before it signals.
//!
//! Not reached: an orphan that wiped its environment.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_lifecycle_core::launch::Remnant;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::connection::Connection;
use super::process::Wiring;
use crate::protocol::path_to_uri;
use crate::protocol::process::StartParams;
use crate::{ExecutorError, Result};

const SCRIPT: &str = include_str!("sweep.sh");

pub(super) const COOKIE: &str = "MCP_EXECUTOR_COOKIE";

const ANSWER: u64 = 64 * 1024;

const VERDICT: usize = 6;

const PROBE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Abilities {
    pub(super) detach: bool,
}

pub(super) async fn probe(connection: &Connection) -> Option<Abilities> {
    let answer = match timeout(PROBE, run(connection, "probe", "-")).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            tracing::debug!(%error, "no helper on this executor");
            return None;
        }
        Err(_) => {
            tracing::warn!("the helper on this executor does not answer within {PROBE:?}");
            return None;
        }
    };
    let mut words = answer.split_whitespace();
    (words.next() == Some("ok")).then(|| Abilities {
        detach: words.next() == Some("setsid"),
    })
}

pub(super) async fn term(connection: &Connection, cookie: &str) -> Result<()> {
    run(connection, "term", cookie).await.map(drop)
}

/// Kills until no process has the cookie. Returns the killed ones.
pub(super) async fn kill(connection: &Connection, cookie: &str) -> Result<Vec<Remnant>> {
    proven(&run(connection, "kill", cookie).await?)
}

pub(super) async fn wait(connection: &Connection, cookie: &str) -> Result<()> {
    proven(&run(connection, "wait", cookie).await?).map(drop)
}

pub(super) async fn list(connection: &Connection, cookie: &str) -> Result<Vec<Remnant>> {
    Ok(remnants(&run(connection, "list", cookie).await?))
}

/// Starts a script that sweeps the session when the peer drops it or dies, and waits until it is
/// outside of what the peer kills. It notices the end of its input.
pub(super) async fn watch(connection: &Connection, cookie: &str) -> Result<Wiring> {
    // The outer shell keeps the pipe registered at the peer. Without the detour over 3, a
    // background command's stdin would be /dev/null.
    let outer =
        r#"exec 3<&0; setsid /bin/sh -c "$1" sh watch "$2" <&3 2>/dev/null & exec 3<&-; wait"#;
    let argv = ["/bin/sh", "-c", outer, "sh", SCRIPT, cookie];
    let mut watch = connection.start(command(&argv)).await?;
    match timeout(PROBE, watch.stdout.read_u8()).await {
        Ok(Ok(_)) => Ok(watch),
        _ => Err(ExecutorError::lost("the helper that sweeps has not begun")),
    }
}

/// Does the same as [`kill`], without waiting and in any context.
pub(super) fn kill_now(connection: &Connection, cookie: &str) {
    let argv = ["/bin/sh", "-c", SCRIPT, "sh", "kill", cookie];
    connection.start_now(command(&argv));
}

/// Runs the script to its end, by another process if the peer loses the first one.
async fn run(connection: &Connection, mode: &str, cookie: &str) -> Result<String> {
    match run_once(connection, mode, cookie).await {
        Err(ExecutorError::Lost { .. }) => run_once(connection, mode, cookie).await,
        answer => answer,
    }
}

async fn run_once(connection: &Connection, mode: &str, cookie: &str) -> Result<String> {
    let argv = ["/bin/sh", "-c", SCRIPT, "sh", mode, cookie];
    let wiring = connection.start(command(&argv)).await?;
    let mut stdout = wiring.stdout;
    let (mut answer, mut rest) = (Vec::new(), Vec::new());
    let read = async {
        (&mut stdout).take(ANSWER).read_to_end(&mut answer).await?;
        // The script runs until it is done, however long its answer. The last line is the verdict.
        while stdout.read_buf(&mut rest).await? > 0 {
            rest.drain(..rest.len().saturating_sub(VERDICT));
        }
        answer.extend_from_slice(&rest);
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let lost = |error: std::io::Error| ExecutorError::lost(error.to_string());
    read.await.map_err(lost)
}

fn command(argv: &[&str]) -> StartParams {
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    StartParams {
        argv: argv.iter().map(ToString::to_string).collect(),
        cwd: path_to_uri("/"),
        env: BTreeMap::from([("PATH".to_owned(), path.to_owned())]),
        ..StartParams::default()
    }
}

pub(super) fn proven(answer: &str) -> Result<Vec<Remnant>> {
    if answer.lines().next_back() == Some("gone") {
        return Ok(remnants(answer));
    }
    Err(ExecutorError::Unproven {
        what: "the helper on the executor's machine ended early".to_owned(),
    })
}

fn remnants(answer: &str) -> Vec<Remnant> {
    let parse = |line: &str| {
        let (pid, rest) = line.split_once(':')?;
        let (_start, name) = rest.split_once(':')?;
        Some(Remnant::remote_process(pid, name))
    };
    answer.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::{COOKIE, SCRIPT, proven};

    /// In the middle of an exec a process has no environment, and this one is always about to be executed.
    #[cfg_attr(windows, ignore = "it runs the script of a machine with a shell")]
    #[test]
    fn what_executes_itself_over_and_over_is_not_taken_for_gone() {
        let value = format!("test-{}-execz", std::process::id());
        let mut server = Command::new("/bin/sh")
            .args(["-c", r#"exec /bin/sh -c "$again""#])
            .env("again", r#"exec /bin/sh -c "$again""#)
            .env(COOKIE, &value)
            .spawn()
            .unwrap();
        let mut sweep = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "sh", "wait", &format!("{COOKIE}={value}")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = sweep.stdout.take().unwrap();
        let (said, says) = mpsc::channel();
        std::thread::spawn(move || said.send(std::io::read_to_string(&mut stdout).unwrap()));
        // The script looks a hundred times meanwhile.
        let early = says.recv_timeout(Duration::from_secs(5));
        server.kill().unwrap();
        server.wait().unwrap();
        assert!(early.is_err(), "{early:?}");
        let late = says.recv_timeout(Duration::from_secs(60)).unwrap();
        sweep.wait().unwrap();
        assert!(proven(&late).is_ok(), "{late:?}");
    }

    /// A server whose helpers come and go must not look as if it were gone.
    #[cfg_attr(windows, ignore = "it runs the script of a machine with a shell")]
    #[test]
    fn a_sweep_ends_what_changes_while_it_looks() {
        for round in 0..20 {
            let value = format!("test-{}-{round}z", std::process::id());
            let mut server = Command::new("/bin/sh")
                .args(["-c", "echo up; while :; do sleep 0.002; done"])
                .env(COOKIE, &value)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdout = server.stdout.take().unwrap();
            stdout.read_exact(&mut [0; 3]).unwrap();
            let cookie = format!("{COOKIE}={value}");
            let sweep = Command::new("/bin/sh")
                .args(["-c", SCRIPT, "sh", "kill", &cookie])
                .output()
                .unwrap();
            // All of it held the pipe.
            let (ended, end) = mpsc::channel();
            std::thread::spawn(move || ended.send(stdout.read_to_end(&mut Vec::new())));
            let end = end.recv_timeout(Duration::from_secs(60));
            let _ = server.kill();
            server.wait().unwrap();
            let answer = String::from_utf8(sweep.stdout).unwrap();
            assert!(end.is_ok(), "round {round}: alive after {answer:?}");
            assert!(!proven(&answer).unwrap().is_empty(), "{answer:?}");
        }
    }
}
