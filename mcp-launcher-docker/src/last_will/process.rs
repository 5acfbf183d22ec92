use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use tracing::warn;

use crate::labels::{self, Role};

#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) socket: PathBuf,
    pub(super) grace: Duration,
    pub(super) limit: Duration,
    pub(super) instance: String,
    pub(super) role: Role,
}

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
        warn!(%error, "the process that outlives this host cannot be watched");
        std::future::pending::<()>().await;
    }
}

pub(super) fn spawn(order: &Order) -> io::Result<(Child, ChildStdin, ChildStdout)> {
    let mut child = mcp_guardian::init::start(|command| {
        command
            .arg("--last-will")
            .arg(&order.socket)
            .arg(order.grace.as_millis().to_string())
            .arg(order.limit.as_millis().to_string())
            .args(queries(&order.instance, order.role))
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // Signals to the host's process group must not reach it.
        std::os::unix::process::CommandExt::process_group(command, 0);
    })?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(stdin), Some(stdout)) => Ok((child, stdin, stdout)),
        _ => Err(io::Error::other("it has no standard streams")),
    }
}

/// Returns the requests for the containers that end with a host, and for the images that inherited
/// its label from one.
fn queries(instance: &str, role: Role) -> [OsString; 2] {
    let label = |field, value| format!("{}={value}", labels::key(instance, field));
    let both = [
        label(labels::ON_END, labels::END),
        label(labels::ROLE, role.value()),
    ];
    let request = |path: &str| {
        let filters = serde_json::json!({ "label": both }).to_string();
        let everything = percent_encoding::NON_ALPHANUMERIC;
        let filters = percent_encoding::utf8_percent_encode(&filters, everything);
        format!("{path}?all=1&filters={filters}").into()
    };
    ["/containers/json", "/images/json"].map(request)
}
