use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join3;
use mcp_lifecycle_core::launch::{ErrorChain, ExitStatus};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::Container;
use super::remove::until_absent;
use crate::engine::{Meaning, NOT_RUNNING, OomStream, State, WaitStream};

/// Longest time from the proof of removal to the exit code.
const LATE_CODE: Duration = Duration::from_millis(500);

const AUTO_REMOVE: Duration = Duration::from_millis(500);

/// Longest time from the exit code to an out-of-memory event, which another thread sends.
const LATE_OUT_OF_MEMORY: Duration = Duration::from_millis(500);

/// Time after which an unread stream must be blocking the removal.
const WEDGED: Duration = Duration::from_secs(3);

/// Poll interval for a remote engine, since a router may silently drop an idle connection.
const REMOTE_LOOK: Duration = Duration::from_secs(15);

pub(super) struct Waits {
    pub(super) exit: WaitStream,
    pub(super) removed: WaitStream,
    pub(super) out_of_memory: Option<OomStream>,
}

impl Waits {
    pub(super) async fn register(&mut self) -> Infallible {
        let out_of_memory = async {
            if let Some(stream) = &mut self.out_of_memory {
                stream.select_next_some().await;
            }
        };
        let _ = join3(
            self.exit.select_next_some(),
            self.removed.select_next_some(),
            out_of_memory,
        )
        .await;
        std::future::pending().await
    }

    /// Returns the exit code, which a wait that was registered too late never gets.
    async fn exit_code(&mut self) -> Result<i64, Meaning> {
        tokio::select! {
            biased;
            code = self.exit.select_next_some() => code,
            code = self.removed.select_next_some() => code,
        }
    }

    async fn is_removed(&mut self) -> bool {
        let removal = timeout(AUTO_REMOVE, self.removed.select_next_some()).await;
        // An inner error may be of a connection that ended after its code was read.
        matches!(removal, Ok(Ok(_)))
    }

    /// Returns whether the kernel killed it for lack of memory, as far as reported in time.
    async fn was_out_of_memory(&mut self, force: &CancellationToken) -> bool {
        let Some(stream) = &mut self.out_of_memory else {
            return false;
        };
        tokio::select! {
            biased;
            () = stream.select_next_some() => true,
            () = force.cancelled() => false,
            () = sleep(LATE_OUT_OF_MEMORY) => false,
        }
    }
}

pub(super) async fn watch(container: Arc<Container>, mut waits: Waits) {
    let ended = {
        let container = Arc::clone(&container);
        async move {
            let status = exit_status(&container, &mut waits).await;
            (status, waits)
        }
    };
    let mut ended = std::pin::pin!(ended);
    let ended_by_itself = tokio::select! {
        ended = &mut ended => Some(ended),
        () = container.force.cancelled() => None,
    };
    let mut exit = None;
    if let Some((status, mut waits)) = ended_by_itself {
        debug!(container = container.id, exit = %status, "container ended");
        exit = Some(status);
        let is_removed = tokio::select! {
            is_removed = waits.is_removed() => is_removed,
            () = container.force.cancelled() => false,
        };
        // Report the exit together with the proof if that follows at once: an end that lacks only
        // the engine's bookkeeping left nothing behind.
        let removal = remove(&container, is_removed);
        let mut removal = std::pin::pin!(removal);
        if timeout(AUTO_REMOVE, &mut removal).await.is_err() {
            container.learn(|known| known.exit = Some(status));
            removal.await;
        }
    } else {
        let is_removed = kill(&container, ended.as_mut(), &mut exit).await;
        remove(&container, is_removed).await;
        if exit.is_none() {
            // The exit code arrives on another connection.
            let late = timeout(LATE_CODE, ended).await;
            exit = late.ok().map(|(status, _)| status);
        }
    }
    let exit = exit.unwrap_or(ExitStatus::Unknown);
    container.learn(|known| {
        known.exit.get_or_insert(exit);
        known.lost = None;
        known.gone = true;
    });
    if is_remote(&container) {
        container.signals.over.cancel();
    }
}

/// Kills the main process and leaves the removal to the engine, which is faster. Returns whether it
/// reported the removal.
async fn kill(
    container: &Container,
    ended: Pin<&mut impl Future<Output = (ExitStatus, Waits)>>,
    exit: &mut Option<ExitStatus>,
) -> bool {
    let is_removed = async {
        let killed = container.engine.kill(&container.id, "SIGKILL").await;
        if killed.is_err() {
            return false;
        }
        let (status, mut waits) = ended.await;
        *exit = Some(status);
        waits.is_removed().await
    };
    let is_removed = timeout(WEDGED, is_removed).await;
    is_removed.unwrap_or_else(|_| {
        container.signals.detach.cancel();
        false
    })
}

async fn remove(container: &Container, is_removed: bool) {
    let removal = until_absent(&container.engine, &container.id, is_removed, |failure| {
        let failure = failure.map(|error| ErrorChain(error).to_string());
        container.learn(|known| known.lost = failure);
    });
    let mut removal = std::pin::pin!(removal);
    if timeout(WEDGED, &mut removal).await.is_err() {
        // Unread output blocks the daemon; the attachment is not needed any more.
        container.signals.discard.cancel();
        container.signals.detach.cancel();
        removal.await;
    }
}

/// Waits for the exit status, without a limit: a silent daemon says nothing about the process.
async fn exit_status(container: &Container, waits: &mut Waits) -> ExitStatus {
    let code = tokio::select! {
        biased;
        code = waits.exit_code() => code,
        () = unheard(container) => Err(Meaning::Unknown),
    };
    match code {
        Ok(code) => match status(container, code).await {
            ExitStatus::Signal(9) if waits.was_out_of_memory(&container.force).await => {
                ExitStatus::OutOfMemory
            }
            status => status,
        },
        Err(_) => ask(container).await,
    }
}

/// Interprets an exit code. 137 is SIGKILL, from the kernel for lack of memory or from a process.
async fn status(container: &Container, code: i64) -> ExitStatus {
    if code == 137
        && !container.force.is_cancelled()
        && let Ok(State::Ended(status)) = container.engine.state(&container.id).await
    {
        return status;
    }
    ExitStatus::from_shell_code(code)
}

async fn ask(container: &Container) -> ExitStatus {
    let mut pause = Duration::from_millis(20);
    loop {
        match container.engine.state(&container.id).await {
            Ok(State::Absent) => return ExitStatus::Unknown,
            Ok(State::Ended(status)) => return status,
            Ok(State::Running | State::Created) => {
                container.learn(|known| known.lost = None);
                if let Some(code) = wait_again(container).await {
                    return status(container, code).await;
                }
            }
            Err(error) => {
                let lost = ErrorChain(&error).to_string();
                if container.known.borrow().lost.is_none() {
                    warn!(
                        container = container.id,
                        error = lost,
                        "container engine lost"
                    );
                }
                container.learn(|known| known.lost = Some(lost));
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(2));
    }
}

async fn wait_again(container: &Container) -> Option<i64> {
    let wait = container.engine.wait(&container.id, NOT_RUNNING).await;
    let mut wait = wait.ok()?;
    tokio::select! {
        biased;
        code = wait.select_next_some() => code.ok(),
        () = unheard(container) => None,
    }
}

fn is_remote(container: &Container) -> bool {
    container.engine.endpoint.local_socket().is_none()
}

async fn unheard(container: &Container) {
    if !is_remote(container) {
        return std::future::pending().await;
    }
    loop {
        sleep(REMOTE_LOOK).await;
        let state = container.engine.state(&container.id).await;
        if !matches!(state, Ok(State::Running | State::Created)) {
            return;
        }
    }
}
