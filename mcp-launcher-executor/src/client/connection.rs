use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mcp_lifecycle_core::backend::random;
use tokio::sync::oneshot;

use super::config::{ExecServerConfig, Target};
use super::driver::{Death, Driver, Seat};
use super::inbox::{Closed, Inbox, Sender, inbox};
use super::process::{Command, DEPTH, Remote, Wiring};
use super::session::{Session, Timing};
use crate::error::reason;
use crate::protocol::extension::{Lifecycle, VERSION, longest_reprieve};
use crate::protocol::process::StartParams;
use crate::protocol::{InitializeResult, path_from_wire, path_to_uri};
use crate::{ExecutorError, Result};

/// An open session with a peer.
///
/// Its own thread and runtime drive it, so that a server can be ended and a lost link resumed even
/// if the host's runtime is stuck or gone.
#[derive(Clone)]
pub(super) struct Connection {
    commands: Sender,
    pub(super) peer: Arc<Peer>,
    dead: Death,
}

const MOST_WINDOW: u64 = 64 << 20;

mcp_lifecycle_core::debug_fields! { Connection, it { prefix: &it.peer.prefix } }

pub(super) struct Peer {
    pub(super) hello: InitializeResult,
    pub(super) window: usize,
    /// Makes process names unique among all clients of all sessions.
    pub(super) prefix: String,
    count: AtomicU64,
}

impl Connection {
    pub(super) async fn open(config: &ExecServerConfig) -> Result<Self> {
        let seat = Arc::new(Seat::default());
        let (commands, inbox) = inbox(Arc::clone(&seat));
        let (ready, opened) = oneshot::channel();
        let now = Instant::now();
        let wish = Lifecycle {
            version: VERSION,
            window: Some(config.window as u64),
            lease_ms: config.lease.map(|lease| lease.as_millis() as u64),
            raw_output: !matches!(config.target, Target::Command { .. }),
            ..Lifecycle::default()
        };
        let session = Session::new(timing(config), "mcp-lifecycle".to_owned(), wish, now);
        let driven = config.clone();
        let dead = Death::default();
        std::thread::Builder::new()
            .name("mcp-executor".to_owned())
            .spawn({
                let dead = Arc::clone(&dead);
                move || drive(driven, session, inbox, &seat, ready, dead)
            })
            .map_err(|error| broken(config, error))?;
        let hello = opened
            .await
            .map_err(|_| broken(config, "the connection's thread ended"))??;
        let lifecycle = hello
            .extensions
            .as_ref()
            .and_then(|e| e.mcp_lifecycle.as_ref());
        let window = lifecycle
            .and_then(|l| l.window)
            .map_or(config.window, |w| w.min(MOST_WINDOW) as usize);
        let random = random::id().map_err(|error| broken(config, error))?;
        Ok(Self {
            commands,
            dead,
            peer: Arc::new(Peer {
                hello,
                window,
                prefix: format!("mcp-{}", &random[..16]),
                count: AtomicU64::new(0),
            }),
        })
    }

    pub(super) fn lifecycle(&self) -> Option<&Lifecycle> {
        let extensions = self.peer.hello.extensions.as_ref()?;
        extensions.mcp_lifecycle.as_ref()
    }

    /// Returns how long processes may live after the loss of the session, unless the daemon was
    /// stopped: the lease, its extension after starvation, the graces, and the graces again as a
    /// margin for detection. `None` with a plain peer.
    pub(super) fn longest_after_loss(&self) -> Option<Duration> {
        let lifecycle = self.lifecycle()?;
        let lease = Duration::from_millis(lifecycle.lease_ms?);
        let grace = Duration::from_millis(lifecycle.grace_ms?);
        let late = longest_reprieve(lease);
        lease.checked_add(late)?.checked_add(grace.checked_mul(2)?)
    }

    pub(super) fn next_id(&self) -> String {
        let count = self.peer.count.fetch_add(1, Ordering::Relaxed);
        format!("{}-{count}", self.peer.prefix)
    }

    /// Starts a process, by default where the peer itself runs. Cancel safe: a start in flight is
    /// undone.
    pub(super) async fn start(&self, params: StartParams) -> Result<Wiring> {
        self.start_as(self.next_id(), params).await
    }

    pub(super) async fn start_as(&self, id: String, params: StartParams) -> Result<Wiring> {
        let params = self.complete(id.clone(), params);
        // A plain peer may handle requests concurrently.
        let depth = self.lifecycle().map_or(1, |_| DEPTH);
        let remote = Remote::new(id, self.commands.clone(), self.peer.window, depth);
        // If dropped at an await, `Remote` is abandoned, which undoes the start.
        let wiring = remote.wire();
        let (reply, answer) = oneshot::channel();
        self.send(Command::Start(params, Arc::downgrade(&remote), reply))?;
        if let Err(error) = answer.await.unwrap_or_else(|_| Err(over())) {
            // Refused, or its end was already requested.
            remote.on_failure(error.clone());
            return Err(error);
        }
        Ok(wiring)
    }

    fn complete(&self, id: String, mut params: StartParams) -> StartParams {
        params.process_id = id;
        params.pipe_stdin = true;
        if params.cwd.is_empty() {
            let home = self.peer.hello.environment_info.as_ref();
            let home = home
                .and_then(|info| info.cwd.as_deref())
                .and_then(path_from_wire);
            params.cwd = path_to_uri(home.as_deref().unwrap_or("/"));
        }
        params
    }

    pub(super) async fn call(
        &self,
        method: &'static str,
        params: serde_json::Value,
    ) -> Result<String> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Call(method, params, reply))?;
        answer.await.unwrap_or_else(|_| Err(over()))
    }

    pub(super) fn terminate_now(&self, id: &str) {
        let _ = self.send(Command::Terminate(id.to_owned()));
    }

    /// Starts a process without following it, in any context.
    pub(super) fn start_now(&self, params: StartParams) {
        let params = self.complete(self.next_id(), params);
        let _ = self.send(Command::StartBlindly(params));
    }

    pub(super) fn death(&self) -> Option<&(Instant, ExecutorError)> {
        self.dead.get()
    }

    fn send(&self, command: Command) -> Result<()> {
        self.commands.send(command).map_err(|Closed| over())
    }
}

fn over() -> ExecutorError {
    ExecutorError::lost("the session is over")
}

fn broken(
    config: &ExecServerConfig,
    error: impl Into<mcp_lifecycle_core::launch::BoxError>,
) -> ExecutorError {
    ExecutorError::Connect {
        peer: config.peer(),
        reason: reason(error),
    }
}

fn timing(config: &ExecServerConfig) -> Timing {
    /// Practically never, but small enough to be added to any time.
    const NEVER: Duration = Duration::from_secs(10 * 365 * 86_400);
    Timing {
        call: config.call_timeout.min(NEVER),
        hello: config.connect_timeout.min(NEVER),
        resume: config.resume_window.min(NEVER),
        retry: Duration::from_millis(100),
        keep_alive: config.keep_alive.min(NEVER),
        dead_after: config.dead_after.min(NEVER),
        hole: Duration::from_millis(200),
    }
}

fn drive(
    config: ExecServerConfig,
    session: Session,
    commands: Arc<Inbox>,
    seat: &Seat,
    ready: oneshot::Sender<Result<InitializeResult>>,
    dead: Death,
) {
    let _vacate = Vacate {
        commands: Arc::clone(&commands),
        seat,
        dead: Arc::clone(&dead),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(async {
            Driver::new(config, session, commands, ready, dead)
                .run(seat)
                .await;
        }),
        Err(error) => drop(ready.send(Err(broken(&config, error)))),
    }
}

/// Ends the driver even after a panic: fails everything that waits for an answer or for a process.
struct Vacate<'a> {
    commands: Arc<Inbox>,
    seat: &'a Seat,
    dead: Death,
}

impl Drop for Vacate<'_> {
    fn drop(&mut self) {
        let reason = "the thread of the connection has ended";
        self.dead
            .get_or_init(|| (Instant::now(), ExecutorError::lost(reason)));
        self.commands.close();
        let driver = self.seat.lock().take();
        if let Some(driver) = driver {
            driver.fail_all(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_driver_that_dies_fails_every_process() {
        let config = crate::ExecutorLauncher::command("true", [""; 0]);
        let wish = Lifecycle::default();
        let session = Session::new(timing(&config), "t".to_owned(), wish, Instant::now());
        let seat = Arc::new(Seat::default());
        let (commands, inbox) = inbox(Arc::clone(&seat));
        let dead = Death::default();
        let (ready, _opened) = oneshot::channel();
        let mut driver = Driver::new(
            config,
            session,
            Arc::clone(&inbox),
            ready,
            Arc::clone(&dead),
        );
        let remote = Remote::new("p".to_owned(), commands, 4096, 1);
        driver.follow(&remote);
        *seat.lock() = Some(driver);
        let panicked = std::thread::spawn(move || {
            let _vacate = Vacate {
                commands: inbox,
                seat: &seat,
                dead,
            };
            let _sits = seat.lock();
            panic!("as a fault of the driver would");
        });
        panicked.join().unwrap_err();
        assert!(remote.status.borrow().failed.is_some());
    }
}
