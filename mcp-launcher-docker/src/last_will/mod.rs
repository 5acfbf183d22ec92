//! The last will of a host: a process beside it that removes its containers when it has died.
//!
//! The host holds the other end of the process's stdin, so that any death closes it. The process
//! runs the program from `init/`, executed from memory, and searches for the host's labels until no
//! container has appeared for a while: a creation may be in flight. The end of its stdout reports
//! its own death, after which it is replaced.

#[cfg(all(
    test,
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mcp_lifecycle_core::lock::Lock;
use tracing::warn;

use crate::control::CONTROL;
use crate::labels::{self, Role};

/// Time for servers to exit after the end of their input.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

const LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of replacements, and the first pause before one.
const REPLACEMENTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(20);

/// One process for each engine in which this host creates containers, started with the first of
/// them. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Wills {
    instance: String,
    role: Role,
    /// `None` if it could not be started; the next creation retries.
    by_socket: Lock<BTreeMap<PathBuf, Option<Arc<LastWill>>>>,
}

/// The process, while the host lives. Dropping it ends it.
#[derive(Debug)]
struct LastWill {
    order: Order,
    process: Lock<Option<(Child, ChildStdin)>>,
}

pub(crate) fn is_possible() -> bool {
    mcp_guardian::init::is_available()
}

impl Wills {
    pub(crate) fn new(instance: &str, role: Role) -> Self {
        Self {
            instance: instance.to_owned(),
            role,
            by_socket: Lock::default(),
        }
    }

    pub(crate) fn cover(&self, socket: &Path) {
        let mut wills = self.by_socket.lock();
        if !is_possible() || matches!(wills.get(socket), Some(Some(_))) {
            return;
        }
        let will = LastWill::begin(Order {
            socket: socket.to_owned(),
            grace: GRACE,
            limit: LIMIT,
            instance: self.instance.clone(),
            role: self.role,
        });
        let will = will
            .map_err(|error| warn!(%error, "containers will not be removed when this host dies"));
        wills.insert(socket.to_owned(), will.ok());
    }

    /// Returns whether the process for this engine lives; `None` if none was needed yet.
    pub(crate) fn is_alive(&self, socket: &Path) -> Option<bool> {
        let wills = self.by_socket.lock();
        let will = wills.get(socket)?;
        Some(will.as_ref().is_some_and(|will| will.is_alive()))
    }
}

impl LastWill {
    fn begin(order: Order) -> io::Result<Arc<Self>> {
        let process = Lock::default();
        let will = Arc::new(Self { order, process });
        let stdout = will.start()?;
        CONTROL.spawn(replace(Arc::downgrade(&will), stdout))?;
        Ok(will)
    }

    fn start(&self) -> io::Result<ChildStdout> {
        let (child, stdin, stdout) = spawn(&self.order)?;
        *self.process.lock() = Some((child, stdin));
        Ok(stdout)
    }

    fn is_alive(&self) -> bool {
        let mut process = self.process.lock();
        let child = process.as_mut().map(|(child, _)| child);
        child.is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    fn end(&self) {
        let process = self.process.lock().take();
        if let Some((mut child, stdin)) = process {
            let _ = child.kill();
            let _ = child.wait();
            drop(stdin);
        }
    }
}

impl Drop for LastWill {
    fn drop(&mut self) {
        // No container of this host is left.
        self.end();
    }
}

/// Replaces the process whenever it has died, for as long as it is needed.
async fn replace(will: Weak<LastWill>, stdout: ChildStdout) {
    let mut stdout = Some(stdout);
    for replacement in 0..=REPLACEMENTS {
        if let Some(stdout) = stdout.take() {
            closed(stdout).await;
        }
        tokio::time::sleep(PAUSE * 2_u32.pow(replacement)).await;
        let Some(will) = will.upgrade() else {
            return;
        };
        will.end();
        warn!("the process that would outlive this host has ended, and is replaced");
        let started = will.start();
        stdout = started
            .map_err(|error| warn!(%error, "containers will not be removed when this host dies"))
            .ok();
    }
}

#[derive(Debug, Clone)]
struct Order {
    socket: PathBuf,
    grace: Duration,
    limit: Duration,
    instance: String,
    role: Role,
}

async fn closed(stdout: ChildStdout) {
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

fn spawn(order: &Order) -> io::Result<(Child, ChildStdin, ChildStdout)> {
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
