#[cfg(feature = "websocket")]
mod addresses;
mod child;
mod config;
mod connect;
mod connection;
#[cfg(feature = "websocket")]
mod dial;
mod driver;
mod helper;
mod inbox;
mod plain;
mod process;
#[cfg(feature = "websocket")]
mod quick_ack;
mod session;
mod supervised;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Containment, LaunchedServer, Reach, ReapReport, TerminationSemantics,
};
use tokio::sync::Mutex;

pub use config::ExecServerConfig;

use self::connection::Connection;
use self::helper::Abilities;
use crate::{Executor, ExecutorError, RemoteCommand};

/// An executor that speaks the exec-server protocol: codex's, or our daemon.
///
/// One connection carries all its processes. A lost connection is resumed without losing or
/// repeating a byte, as long as the peer keeps the session; the next start replaces one that is
/// lost for good.
///
/// # Drop
///
/// The processes keep running until they are dropped as well; the last one closes the connection.
pub struct ExecServer {
    config: ExecServerConfig,
    semantics: crate::mutex::Mutex<TerminationSemantics>,
    current: Mutex<Option<Arc<Established>>>,
}

struct Established {
    connection: Connection,
    semantics: TerminationSemantics,
    helper: Option<Abilities>,
    /// Sweeps the session when the peer drops it, and when this is dropped.
    _watch: Option<process::Wiring>,
}

impl ExecServer {
    /// Connects, completes the handshake, and determines the peer's abilities.
    ///
    /// # Errors
    ///
    /// [`ExecutorError::Connect`] if the peer is not reachable, `Refused` if it refuses.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the connection is closed.
    pub async fn connect(config: ExecServerConfig) -> Result<Self, ExecutorError> {
        let server = Self::new(config);
        server.established().await?;
        Ok(server)
    }

    /// Creates an executor that connects with its first use. Until then its semantics promise
    /// nothing.
    pub fn new(config: ExecServerConfig) -> Self {
        let unknown = Containment::new("executor, not connected yet", Reach::Nothing);
        Self {
            semantics: crate::mutex::Mutex::new(
                TerminationSemantics::new(unknown)
                    .stdin_eof()
                    .polite_signal(),
            ),
            current: Mutex::new(None),
            config,
        }
    }

    async fn established(&self) -> Result<Arc<Established>, ExecutorError> {
        let mut current = self.current.lock().await;
        if let Some(established) = current.as_ref().filter(|e| !e.connection.is_dead()) {
            return Ok(Arc::clone(established));
        }
        let established = Arc::new(establish(&self.config).await?);
        *self.semantics.lock() = established.semantics.clone();
        *current = Some(Arc::clone(&established));
        Ok(established)
    }
}

async fn establish(config: &ExecServerConfig) -> Result<Established, ExecutorError> {
    let connection = Connection::open(config).await?;
    if let Some(lifecycle) = connection.lifecycle() {
        let containment = match &lifecycle.containment {
            Some(wire) => crate::wire::containment(wire),
            None => Containment::new("executor", Reach::Group),
        };
        return Ok(Established {
            semantics: TerminationSemantics::new(containment)
                .stdin_eof()
                .polite_signal(),
            connection,
            helper: None,
            _watch: None,
        });
    }
    let helper = match config.helper {
        true => helper::probe(&connection).await,
        false => None,
    };
    let watch = match helper {
        Some(Abilities { detach: true }) => {
            let cookie = plain::session_cookie(&connection);
            helper::watch(&connection, &cookie).await.ok()
        }
        _ => None,
    };
    Ok(Established {
        semantics: plain::semantics(helper, watch.is_some()),
        connection,
        helper,
        _watch: watch,
    })
}

#[async_trait]
impl Executor for ExecServer {
    fn name(&self) -> String {
        self.config.peer()
    }

    fn fingerprint(&self) -> Option<String> {
        Some(self.config.fingerprint())
    }

    fn semantics(&self) -> TerminationSemantics {
        self.semantics.lock().clone()
    }

    async fn start(&self, command: &RemoteCommand) -> Result<LaunchedServer, ExecutorError> {
        let established = self.established().await?;
        let peer = self.config.peer();
        if established.connection.lifecycle().is_some() {
            return supervised::start(&established, peer, command).await;
        }
        plain::start(&established, peer, command).await
    }

    /// Does nothing: an executor's lease ends what dead clients leave.
    async fn reap_orphans(&self) -> Result<ReapReport, ExecutorError> {
        Ok(ReapReport::new())
    }
}

impl fmt::Debug for Established {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Established")
            .field("connection", &self.connection)
            .field("helper", &self.helper)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ExecServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecServer")
            .field("peer", &self.config.peer())
            .field("semantics", &*self.semantics.lock())
            .finish_non_exhaustive()
    }
}

#[cfg(fuzzing)]
pub(crate) mod fuzzing {
    pub(crate) use super::helper::fuzzing::answer as helper_answer;
    pub(crate) use super::session::{Effect, ProcessEvent, Purpose, Session, Timing};
}
