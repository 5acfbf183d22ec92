//! The last will of a host: a process beside it that removes its containers when it has died.
//!
//! The host holds the other end of the process's stdin, so that any death closes it. The process
//! runs the program from `init/`, executed from memory, and searches for the host's labels until no
//! container has appeared for a while: a creation may be in flight. The end of its stdout reports
//! its own death, after which it is replaced.

mod process;
#[cfg(all(
    test,
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::lock::Lock;

use tracing::warn;

use crate::control::CONTROL;
use crate::labels::Role;
use process::{Order, closed, spawn};

/// Time for servers to exit after the end of their input.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// How long a daemon that does not respond is retried.
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
    by_socket: Lock<BTreeMap<PathBuf, Option<LastWill>>>,
}

/// The process, while the host lives. Dropping it ends it.
#[derive(Debug)]
struct LastWill(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    order: Order,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    process: Option<(Child, ChildStdin)>,
    over: bool,
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
        Some(will.as_ref().is_some_and(LastWill::is_alive))
    }
}

impl LastWill {
    fn begin(order: Order) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            order,
            state: Lock::default(),
        });
        let stdout = shared.start(&mut shared.state.lock())?;
        CONTROL.spawn(replace(Arc::clone(&shared), stdout))?;
        Ok(Self(shared))
    }

    fn is_alive(&self) -> bool {
        let mut state = self.0.state.lock();
        let child = state.process.as_mut().map(|(child, _)| child);
        child.is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }
}

impl Drop for LastWill {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.over = true;
        // No container of this host is left.
        state.end();
    }
}

impl Shared {
    fn start(&self, state: &mut State) -> io::Result<ChildStdout> {
        let (child, stdin, stdout) = spawn(&self.order)?;
        state.process = Some((child, stdin));
        Ok(stdout)
    }
}

impl State {
    fn end(&mut self) {
        if let Some((mut child, stdin)) = self.process.take() {
            let _ = child.kill();
            let _ = child.wait();
            drop(stdin);
        }
    }
}

/// Replaces the process whenever it has died, for as long as it is needed.
async fn replace(shared: Arc<Shared>, stdout: ChildStdout) {
    let mut stdout = Some(stdout);
    for replacement in 0..=REPLACEMENTS {
        if let Some(stdout) = stdout.take() {
            closed(stdout).await;
        }
        tokio::time::sleep(PAUSE * 2_u32.pow(replacement)).await;
        let mut state = shared.state.lock();
        if state.over {
            return;
        }
        state.end();
        warn!("the process that would outlive this host has ended, and is replaced");
        let started = shared.start(&mut state);
        stdout = started
            .map_err(|error| warn!(%error, "containers will not be removed when this host dies"))
            .ok();
    }
}
