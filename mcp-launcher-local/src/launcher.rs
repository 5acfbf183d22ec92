//! [`LocalLauncher`]: servers as processes on this machine.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Containment, ErrorChain, Guarantee, LaunchContext, LaunchError, LaunchErrorKind,
    LaunchedServer, Reach, ReapError, ReapReport, ServerLauncher, ServerSpec, TerminationSemantics,
};

use crate::command::Command;
use crate::level::{Isolation, Limits};
use crate::plan::{Plan, Spares};
use crate::{orphans, sys};

/// Starts servers as processes on this machine.
///
/// The program is looked up in the `PATH` that the server will see, and starts
/// with the environment that the specification allows and no descriptor of the
/// host but its three streams.
///
/// On Linux each server gets a [guardian](Isolation::Guardian) by default, on Windows a job object, on macOS a guardian where
/// the host calls [`serve_as_guardian`](crate::serve_as_guardian). What
/// that gives, or why it is not available, is in
/// [`semantics`](ServerLauncher::semantics); [`require`](Self::require) turns a
/// fallback into an error.
///
/// The launcher owns two threads and one epoll descriptor per process of the
/// host, shared by all servers and all launchers, which notice and reap what
/// has ended, and search for processes that left their cgroup. It installs no signal handler, changes no disposition of SIGCHLD,
/// and waits for no process but its own.
///
/// # Drop
///
/// Servers that were launched live on: each has its own owner. The last clone's drop ends the
/// [spare guardians](Self::spare_guardians).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LocalLauncher {
    isolation: Isolation,
    required: Vec<Guarantee>,
    posthumous_grace: Duration,
    limits: Limits,
    spares: Option<Arc<Spares>>,
}

const NAME: &str = "local";

impl LocalLauncher {
    /// A launcher with the best containment this machine has.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what holds the processes of a server together.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets how long a server may outlive the host, so that it can save what it has.
    ///
    /// Zero by default: when the host is gone (killed, aborted, exited without drops),
    /// the server is killed at once. Otherwise its guardian sends SIGTERM to the tree,
    /// and SIGKILL when this time is over. Nothing else is changed by it: a server that
    /// is dropped, terminated or killed by a living host ends by the host's own clock. A
    /// process group has no guardian, and nothing there notices the host's end; a job object
    /// ends with its host at once.
    #[must_use]
    pub fn posthumous_grace(mut self, grace: Duration) -> Self {
        self.posthumous_grace = grace;
        self
    }

    /// Sets the most that each server may use, with all that it starts. None by default.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Keeps up to `most` idle guardians ready, so that later launches start sooner. 0, the default, turns this off.
    ///
    /// The first spare is made in the background when the first server is ready for calls (`LaunchContext::keep_until_ready`);
    /// none is made while a server starts. Their number grows up to `most` while
    /// launches come faster than spares are made, and shrinks after 30 s without a launch. Each spare is an idle
    /// process (some 30 KiB of private memory) with an empty cgroup and two descriptors in the host; it serves one
    /// launch and ends with the host. If the host's user, limits or umask have changed since, the launch starts a
    /// new guardian instead ([`give_up_spares`](Self::give_up_spares) names what cannot be compared). After two such
    /// launches in a row, as from threads with attributes of their own, no more are made until a launch would fit, or
    /// [`warm_up`](Self::warm_up). Clones of the launcher share the spares; the last clone's drop ends them. Process
    /// groups and PID namespaces have no spares.
    #[must_use]
    pub fn spare_guardians(mut self, most: usize) -> Self {
        self.spares = (most > 0).then(|| Arc::new(Spares::new(most)));
        self
    }

    /// Ends all [spare guardians](Self::spare_guardians), without waiting for it. The next launch starts a new guardian and a new
    /// thread that makes spares; both inherit what the launching thread has then.
    ///
    /// Call it after this process, or a thread that launches, has given up a right in a way that cannot be read back: a Landlock
    /// domain or a session keyring.
    pub fn give_up_spares(&self) {
        if let Some(spares) = &self.spares {
            spares.give_up();
        }
    }

    /// Makes [spare guardians](Self::spare_guardians) before the first launch, and returns how many are ready: 0 if
    /// spares are off or this machine allows no guardian.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped, they are made all the same.
    pub async fn warm_up(&self) -> usize {
        let Some(spares) = self.spares.clone() else {
            return 0;
        };
        let isolation = self.isolation;
        let made = blocking(move || match sys::own_servers() {
            Ok(()) => Plan::choose(isolation).warm_up(&spares),
            Err(_) => 0,
        });
        made.await.unwrap_or(0)
    }

    /// Finds out what this machine allows, and returns what the next launch gets.
    ///
    /// Starts up to three processes that end at once and waits for them, about
    /// half a millisecond each, on a thread that may block. The answer is kept
    /// for the life of the process; [`semantics`](ServerLauncher::semantics)
    /// reads it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped, it is finished and kept all the same.
    pub async fn probe(&self) -> Containment {
        let isolation = self.isolation;
        let found = blocking(move || {
            let not_here = |error: io::Error| unknown().with_fallback(error.to_string());
            sys::own_servers()
                .map_or_else(not_here, |()| Plan::choose(isolation).containment().clone())
        });
        let found = found.await;
        found.unwrap_or_else(|why| unknown().with_fallback(ErrorChain(&why).to_string()))
    }

    /// Insists on a guarantee: where this machine cannot give it, launches fail
    /// with [`LaunchErrorKind::Containment`] instead of doing with less.
    #[must_use]
    pub fn require(mut self, guarantee: Guarantee) -> Self {
        self.required.push(guarantee);
        self
    }
}

#[async_trait]
impl ServerLauncher for LocalLauncher {
    fn name(&self) -> &str {
        NAME
    }

    fn fingerprint(&self) -> Option<String> {
        Some(format!(
            "{:?} {:?} {:?} {:?}",
            self.isolation, self.required, self.posthumous_grace, self.limits
        ))
    }

    /// Reads what is known; never starts a process, never blocks.
    ///
    /// What this machine allows is found out by the first launch, or by
    /// [`probe`](LocalLauncher::probe). Before that, the mechanism is
    /// "not known yet", which promises nothing.
    fn semantics(&self) -> TerminationSemantics {
        let plan = Plan::known(self.isolation);
        let containment = plan.map_or_else(unknown, |plan| plan.containment().clone());
        TerminationSemantics::new(containment)
            .with_stdin_eof()
            .with_polite_signal()
    }

    /// Looks the program up and starts it, on a thread that may block: a path
    /// on a network mount must not stall the runtime.
    async fn launch(
        &self,
        spec: &ServerSpec,
        context: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        let fail = |kind| LaunchError::new(NAME, spec, kind);
        let (isolation, required) = (self.isolation, self.required.clone());
        let (grace, limits) = (self.posthumous_grace, self.limits);
        let spares = self.spares.clone();
        let launching = spares.as_ref().map(|spares| spares.launching());
        let owned = spec.clone();
        // Dropped here, the server is started anyway and killed at once, by the
        // drop of what nobody took.
        let spawned = blocking(move || {
            sys::own_servers().map_err(|error| {
                LaunchErrorKind::backend("servers cannot be launched from here", error)
            })?;
            let plan = Plan::choose(isolation);
            for guarantee in required {
                plan.containment()
                    .require(guarantee)
                    .map_err(LaunchErrorKind::Containment)?;
            }
            let spawned = plan
                .with_posthumous_grace(grace)
                .with_limits(limits)?
                .spawn(Command::prepare(&owned)?, spares.as_deref())?;
            spares.iter().for_each(|spares| spares.launched());
            Ok(spawned)
        });
        let spawned = spawned.await.and_then(|spawned| spawned).map_err(fail)?;
        let launched = spawned.started().await.map_err(fail)?;
        // The next spare is made when this server is ready.
        if let Some(launching) = launching {
            context.keep_until_ready(launching);
        }
        Ok(launched)
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        sys::not_forked().map_err(|error| ReapError::new(NAME, error))?;
        let reaped = blocking(orphans::reap).await;
        let reaped = reaped.map_err(|lost| ReapError::new(NAME, lost))?;
        reaped.map_err(|error| ReapError::new(NAME, error))
    }
}

fn unknown() -> Containment {
    Containment::new("not known yet", Reach::Nothing)
        .with_fallback("the first launch finds out what this machine allows")
}

/// Runs `work` on a thread that may block.
///
/// # Errors
///
/// The runtime has no thread for it or is being shut down, or `work` panicked:
/// then it has undone what it did.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LaunchErrorKind> {
    const NO_THREAD: &str = "the runtime could not start a thread that may block";
    // Tokio panics where the system gives it no thread, and keeps the task in
    // its queue for the next thread that there is: by then it must do nothing.
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let queued = Arc::clone(&work);
    let run = move || take(&queued).map(|work| work());
    let spawned = match catch_unwind(AssertUnwindSafe(|| tokio::task::spawn_blocking(run))) {
        Ok(spawned) => spawned,
        Err(panic) => {
            drop(take(&work));
            return Err(LaunchErrorKind::backend(NO_THREAD, message(&*panic)));
        }
    };
    let lost = match spawned.await {
        Ok(Some(done)) => return Ok(done),
        Ok(None) => return Err(LaunchErrorKind::backend(NO_THREAD, "it was given up")),
        Err(lost) => lost,
    };
    Err(match lost.try_into_panic() {
        Ok(panic) => LaunchErrorKind::backend("the launcher panicked", message(&*panic)),
        Err(lost) => LaunchErrorKind::backend("the runtime is being shut down", lost),
    })
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it did not say why".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_made_alike_are_interchangeable() {
        let plain = LocalLauncher::new().fingerprint();
        assert_eq!(plain, LocalLauncher::new().fingerprint());
        let group = LocalLauncher::new().isolation(Isolation::ProcessGroup);
        assert_ne!(plain, group.fingerprint());
        let strict = LocalLauncher::new().require(Guarantee::AtomicPlacement);
        assert_ne!(plain, strict.fingerprint());
        let patient = LocalLauncher::new().posthumous_grace(Duration::from_secs(2));
        assert_ne!(plain, patient.fingerprint());
        let limited = LocalLauncher::new().limits(Limits::default().with_processes(8));
        assert_ne!(plain, limited.fingerprint());
    }
}
