mod addresses;
mod config;
mod connect;
mod connection;
mod dial;
mod driver;
#[cfg(fuzzing)]
#[path = "../../../fuzz/src/launcher/inside.rs"]
pub(crate) mod fuzzing;
mod helper;
mod inbox;
mod params;
mod plain;
mod process;
mod session;
mod supervised;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Containment, LaunchContext, LaunchError, LaunchErrorKind, LaunchedServer, Reach, ReapError,
    ReapReport, ServerLauncher, ServerSpec, TerminationSemantics,
};
use tokio::sync::Mutex;

pub use config::ExecServerConfig;

use self::config::Target;
use self::connection::Connection;
use self::helper::{Abilities, COOKIE};
use crate::ExecutorError;
use crate::protocol::process::StartParams;

const NAME: &str = "executor";

/// Launches servers at an executor that speaks the exec-server protocol: codex's, or our daemon.
/// Clones share it.
///
/// One connection carries all its processes. A lost connection is resumed without losing or
/// repeating a byte, as long as the peer keeps the session; the next launch replaces one that is
/// lost for good.
///
/// It has no options in a [`ServerSpec`] and refuses any.
///
/// # Drop
///
/// Servers that were launched keep running until they are dropped as well; the last one closes the
/// connection.
#[derive(Clone)]
pub struct ExecutorLauncher {
    shared: Arc<Shared>,
}

struct Shared {
    config: ExecServerConfig,
    semantics: mcp_lifecycle_core::lock::Lock<TerminationSemantics>,
    current: Mutex<Option<Arc<Established>>>,
}

struct Established {
    connection: Connection,
    semantics: TerminationSemantics,
    helper: Option<Abilities>,
    /// Sweeps the session when the peer drops it, and when this is dropped.
    _watch: Option<process::Wiring>,
}

impl ExecutorLauncher {
    /// Creates the configuration of an executor at a `ws://` or `wss://` URL, or at a socket file
    /// `unix:/path` of this machine, owned by this user or root.
    pub fn websocket(url: impl Into<String>) -> ExecServerConfig {
        ExecServerConfig::new(Target::WebSocket {
            url: url.into(),
            token: None,
            certificates: config::Certificates::default(),
        })
    }

    /// Creates the configuration of an executor on the standard streams of a command: `ssh host
    /// mcp-executor --stdio`, `kubectl exec -i pod -- …`.
    pub fn command<A: Into<std::ffi::OsString>>(
        program: impl Into<std::ffi::OsString>,
        args: impl IntoIterator<Item = A>,
    ) -> ExecServerConfig {
        let mut config = ExecServerConfig::new(Target::Command {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
        });
        config.resume_window = std::time::Duration::ZERO;
        config
    }

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
        let launcher = config.build();
        launcher.established().await?;
        Ok(launcher)
    }

    async fn established(&self) -> Result<Arc<Established>, ExecutorError> {
        let mut current = self.shared.current.lock().await;
        if let Some(established) = current.as_ref().filter(|e| e.connection.death().is_none()) {
            return Ok(Arc::clone(established));
        }
        let established = Arc::new(establish(&self.shared.config).await?);
        *self.shared.semantics.lock() = established.semantics.clone();
        *current = Some(Arc::clone(&established));
        Ok(established)
    }

    async fn start(&self, params: StartParams) -> Result<LaunchedServer, ExecutorError> {
        let established = self.established().await?;
        let peer = self.shared.config.peer();
        if established.connection.lifecycle().is_some() {
            return supervised::start(&established, peer, params).await;
        }
        plain::start(&established, peer, params).await
    }
}

impl ExecServerConfig {
    /// Builds a launcher, which connects with its first launch. Until then its semantics promise
    /// nothing: [`ExecutorLauncher::connect`] connects at once.
    pub fn build(self) -> ExecutorLauncher {
        let unknown = Containment::new("executor, not connected yet", Reach::Nothing);
        let semantics = TerminationSemantics::all(unknown);
        let shared = Arc::new(Shared {
            semantics: mcp_lifecycle_core::lock::Lock::new(semantics),
            current: Mutex::new(None),
            config: self,
        });
        ExecutorLauncher { shared }
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
            semantics: TerminationSemantics::all(containment),
            connection,
            helper: None,
            _watch: None,
        });
    }
    let helper = helper::probe(&connection).await;
    let watch = match helper {
        Some(Abilities { detach: true }) => {
            let cookie = format!("{COOKIE}={}-", connection.peer.prefix);
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
impl ServerLauncher for ExecutorLauncher {
    fn name(&self) -> &str {
        NAME
    }

    fn fingerprint(&self) -> Option<String> {
        Some(self.shared.config.fingerprint())
    }

    fn semantics(&self) -> TerminationSemantics {
        self.shared.semantics.lock().clone()
    }

    async fn launch(
        &self,
        spec: &ServerSpec,
        _: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        let failed = |kind| LaunchError::new(NAME, spec, kind);
        let params =
            params::of(spec).map_err(|error| failed(LaunchErrorKind::InvalidSpec(error)))?;
        let started = self.start(params).await;
        started.map_err(|error| failed(launch_kind(spec, error)))
    }

    /// Does nothing: an executor's lease ends what dead clients leave.
    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        Ok(ReapReport::new())
    }
}

/// Classifies a launch error by what the caller can do about it.
fn launch_kind(spec: &ServerSpec, error: ExecutorError) -> LaunchErrorKind {
    let path = || PathBuf::from(spec.program().unwrap_or_default());
    match &error {
        ExecutorError::Refused {
            kind: Some(kind),
            message,
            searched,
            ..
        } => match kind.as_str() {
            "notFound" => LaunchErrorKind::NotFound {
                program: path().to_string_lossy().into_owned(),
                searched: searched.clone(),
            },
            "noSuchFile" => LaunchErrorKind::NoSuchFile(path()),
            "notExecutable" => LaunchErrorKind::NotExecutable(path()),
            "isDirectory" => LaunchErrorKind::IsDirectory(path()),
            "workingDirectory" => LaunchErrorKind::WorkingDirectory {
                path: spec.cwd().map(Into::into).unwrap_or_default(),
                cause: std::io::Error::other(message.clone()),
            },
            "limit" => LaunchErrorKind::Limit {
                what: message.clone(),
                cause: None,
            },
            _ => LaunchErrorKind::backend("the executor could not start it", error),
        },
        _ => LaunchErrorKind::backend("the executor could not start it", error),
    }
}

mcp_lifecycle_core::debug_fields! { Established, it { connection: &it.connection, helper: &it.helper } }

mcp_lifecycle_core::debug_fields! { ExecutorLauncher, it {
    peer: &it.shared.config.peer(),
    semantics: &*it.shared.semantics.lock(),
} }
