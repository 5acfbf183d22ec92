//! The process: how it is started, what it is told, and how its death is seen.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use tracing::warn;

use crate::{labels, program};

/// The order to the process: which daemon, which host, and how long.
#[derive(Debug, Clone)]
pub(super) struct Order {
    /// The daemon's.
    pub(super) socket: PathBuf,
    pub(super) grace: Duration,
    /// How long a daemon is asked that does not answer.
    pub(super) limit: Duration,
    /// The host whose label a container carries.
    pub(super) instance: Option<String>,
}

/// Completes when nobody holds the other end.
pub(super) async fn closed(stdout: ChildStdout) {
    let wait = async {
        let stdout = tokio::net::unix::pipe::Receiver::from_owned_fd(stdout.into())?;
        let mut buffer = [0; 16];
        loop {
            stdout.readable().await?;
            match stdout.try_read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    };
    if let Err::<(), io::Error>(error) = wait.await {
        warn!(%error, "nobody sees whether the process that outlives this host lives");
        std::future::pending::<()>().await;
    }
}

pub(super) fn spawn(order: &Order) -> io::Result<(Child, ChildStdin, ChildStdout)> {
    let mut child = program::start(|command| {
        command
            .arg("--last-will")
            .arg(&order.socket)
            .arg(order.grace.as_millis().to_string())
            .arg(order.limit.as_millis().to_string())
            .args(order.instance.iter().flat_map(|instance| queries(instance)))
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // What is sent to the host's group is not for it.
        std::os::unix::process::CommandExt::process_group(command, 0);
    })?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(stdin), Some(stdout)) => {
            // A process that is stopped must not stop its host.
            let flags = nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK);
            nix::fcntl::fcntl(&stdin, flags)?;
            Ok((child, stdin, stdout))
        }
        _ => Err(io::Error::other("it has no standard streams")),
    }
}

/// The requests for the containers of a host that end with it, and for the
/// images that have its label from one of them.
fn queries(instance: &str) -> [OsString; 2] {
    let instance = format!("{}={instance}", labels::INSTANCE);
    let end = format!("{}={}", labels::ON_END, labels::END);
    let request = |path: &str, labels: &[&str]| {
        let filters = serde_json::json!({ "label": labels }).to_string();
        let everything = percent_encoding::NON_ALPHANUMERIC;
        let filters = percent_encoding::utf8_percent_encode(&filters, everything);
        format!("{path}?all=1&filters={filters}").into()
    };
    [
        request("/containers/json", &[&instance, &end]),
        request("/images/json", &[&instance]),
    ]
}
