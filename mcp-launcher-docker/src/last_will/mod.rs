//! The last will of a host: a process beside it that removes its containers
//! when it has died.
//!
//! The host holds the other end of the process's standard input, so the kernel
//! tells of any death. It is the program of `init/` once more, started from memory:
//! a stubborn server ends without an init of ours in its
//! container and without another host's sweep. It needs a daemon behind a Unix
//! socket of this machine.
//!
//! ```text
//!  before the create ──▶ included ── proven gone ──▶ excluded
//!                           │ the host dies
//!                           ▼
//!        grace, for those that leave at the end of input ──▶ DELETE, by force
//! ```
//!
//! Containers that a server creates are not known one by one: the process asks
//! for them by the host's label, until nothing more has come for a time.
//!
//! Its standard output is a pipe, too: the end of that is its own death, and it
//! is replaced.
//!
//! Not guaranteed: what is killed together with the host (a cgroup, a container,
//! the machine) is no help to it; then the next sweep is.

mod process;
#[cfg(all(test, init_available))]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::warn;

use crate::control;
use process::{Order, closed, spawn};

/// How long servers have to leave after the end of their input.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// How long a daemon is asked that does not answer.
const LIMIT: Duration = Duration::from_secs(60);

/// As many as the program has room for.
const MOST: usize = 1024;

/// How often a process that died is replaced, before this is given up, and the
/// first pause before that.
const REPLACEMENTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(20);

/// The process, while the host lives.
///
/// # Drop
///
/// It ends: nobody is included any more.
#[derive(Debug)]
pub(crate) struct LastWill(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    order: Order,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    process: Option<(Child, ChildStdin)>,
    included: BTreeSet<String>,
    /// Nobody needs it any more.
    over: bool,
}

/// A container that is to be removed when the host dies.
///
/// # Drop
///
/// It is not, any more.
#[derive(Debug)]
pub(crate) struct Included {
    will: Arc<LastWill>,
    name: String,
}

/// One process for each engine that servers create containers in, begun with
/// the first of them.
#[derive(Debug)]
pub(crate) struct Wills {
    instance: String,
    /// `None` where it could not be started, which the next create tries again.
    by_socket: Mutex<BTreeMap<PathBuf, Option<LastWill>>>,
}

/// Returns whether this build has the program.
pub(crate) fn is_possible() -> bool {
    cfg!(init_available)
}

impl LastWill {
    /// Starts the process, for what is [included](Self::include).
    pub(crate) fn begin(socket: &Path) -> io::Result<Self> {
        Self::with(Order {
            socket: socket.to_owned(),
            grace: GRACE,
            limit: LIMIT,
            instance: None,
        })
    }

    fn with(order: Order) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            order,
            state: Mutex::default(),
        });
        let stdout = shared.start(&mut shared.state())?;
        control::spawn(replace(Arc::clone(&shared), stdout))?;
        Ok(Self(shared))
    }

    /// Includes a container, by id or name; `None` when there is no room.
    pub(crate) fn include(self: &Arc<Self>, name: &str) -> Option<Included> {
        let mut state = self.0.state();
        if state.included.len() >= MOST {
            return None;
        }
        state.included.insert(name.to_owned());
        state.tell('+', name);
        Some(Included {
            will: Arc::clone(self),
            name: name.to_owned(),
        })
    }

    /// Returns whether the process lives at this moment.
    pub(crate) fn is_alive(&self) -> bool {
        let mut state = self.0.state();
        let child = state.process.as_mut().map(|(child, _)| child);
        child.is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }
}

impl Drop for LastWill {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.over = true;
        // Nobody is included: nothing is left undone.
        state.end();
    }
}

impl Included {
    /// Returns whether it would be removed if the host died at this moment.
    pub(crate) fn is_certain(&self) -> bool {
        self.will.is_alive()
    }
}

impl Drop for Included {
    fn drop(&mut self) {
        let mut state = self.will.0.state();
        state.included.remove(&self.name);
        state.tell('-', &self.name);
    }
}

impl Wills {
    pub(crate) fn new(instance: &str) -> Self {
        Self {
            instance: instance.to_owned(),
            by_socket: Mutex::default(),
        }
    }

    /// Makes sure that what is about to be created at this engine ends with the
    /// host, where that can be.
    pub(crate) fn cover(&self, socket: &Path) {
        let mut wills = self.lock();
        if !is_possible() || matches!(wills.get(socket), Some(Some(_))) {
            return;
        }
        let will = LastWill::with(Order {
            socket: socket.to_owned(),
            grace: GRACE,
            limit: LIMIT,
            instance: Some(self.instance.clone()),
        });
        let will =
            will.map_err(|error| warn!(%error, "nobody removes containers when this host dies"));
        wills.insert(socket.to_owned(), will.ok());
    }

    /// Returns whether the process for this engine lives; `None` where nothing was
    /// created yet.
    pub(crate) fn is_alive(&self, socket: &Path) -> Option<bool> {
        let wills = self.lock();
        let will = wills.get(socket)?;
        Some(will.as_ref().is_some_and(LastWill::is_alive))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Option<LastWill>>> {
        self.by_socket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process that knows of all that are included.
    fn start(&self, state: &mut State) -> io::Result<ChildStdout> {
        let (child, stdin, stdout) = spawn(&self.order)?;
        state.process = Some((child, stdin));
        for name in state.included.clone() {
            state.tell('+', &name);
        }
        Ok(stdout)
    }
}

impl State {
    /// A process that does not take a line is of no use: it is replaced.
    fn tell(&mut self, sign: char, name: &str) {
        let Some((_, stdin)) = &mut self.process else {
            return;
        };
        // At once or not at all: shorter than what a pipe takes as one.
        let line = format!("{sign}{name}\n");
        if let Err(error) = stdin.write_all(line.as_bytes()) {
            warn!(%error, "the process that would outlive this host takes no orders");
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some((mut child, stdin)) = self.process.take() {
            let _ = child.kill();
            let _ = child.wait();
            drop(stdin);
        }
    }
}

/// Starts another process whenever one has died, for as long as it is needed.
async fn replace(shared: Arc<Shared>, stdout: ChildStdout) {
    let mut stdout = Some(stdout);
    for replacement in 0..=REPLACEMENTS {
        if let Some(stdout) = stdout.take() {
            closed(stdout).await;
        }
        tokio::time::sleep(PAUSE * 2_u32.pow(replacement)).await;
        let mut state = shared.state();
        if state.over {
            return;
        }
        state.end();
        warn!("the process that would outlive this host has ended, and is replaced");
        // What failed may succeed later.
        let started = shared.start(&mut state);
        stdout = started
            .map_err(|error| warn!(%error, "nobody removes containers when this host dies"))
            .ok();
    }
}
