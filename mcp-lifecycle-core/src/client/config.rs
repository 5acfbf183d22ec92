use std::sync::Arc;
use std::time::Duration;

use super::handshake::Kind;
use super::{CallOptions, ProtocolPreference, TransportLimits};
use crate::launch::macros::{debug_fields, field_setters};
use crate::launch::{ServerLauncher, ServerSpec};
use crate::terminate::TerminationPolicy;

pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of one server: its program, its launcher, its limits.
///
/// Two configurations mean the same process if specification, launcher (by its
/// [`fingerprint`](ServerLauncher::fingerprint)), limits and protocol are equal. Other settings can
/// change while the process runs. Clones are cheap. `Debug` shows no values of the environment.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The specification, and the launcher's name and fingerprint, read once, so that comparisons
    /// run no launcher code.
    pub(crate) kind: Kind,
    launcher: Arc<dyn ServerLauncher>,
    /// Time limit for the launcher to fetch what it needs, such as an image, before the start-up
    /// clock begins. 10 minutes by default.
    pub prepare_timeout: Duration,
    /// Time limit for launch and handshake together. 30 s by default.
    pub startup_timeout: Duration,
    /// How long `server/discover` may stay unanswered before the legacy era is assumed. 5 s by
    /// default. A slower modern server is still recognised by its late answer.
    pub probe_timeout: Duration,
    /// The time limits of the server's end.
    pub termination: TerminationPolicy,
    /// The options of calls without their own.
    pub call_options: CallOptions,
    /// The limits of its streams.
    pub limits: TransportLimits,
    /// The era of the protocol to speak.
    pub protocol: ProtocolPreference,
}

impl ServerConfig {
    /// Creates a server with the default settings.
    pub fn new(launcher: Arc<dyn ServerLauncher>, spec: ServerSpec) -> Self {
        Self {
            kind: Kind {
                launcher: launcher.name().into(),
                fingerprint: launcher.fingerprint().map(Arc::from),
                spec: Arc::new(spec),
            },
            launcher,
            prepare_timeout: Duration::from_secs(600),
            startup_timeout: Duration::from_secs(30),
            probe_timeout: PROBE_TIMEOUT,
            termination: TerminationPolicy::default(),
            call_options: CallOptions::default(),
            limits: TransportLimits::default(),
            protocol: ProtocolPreference::default(),
        }
    }

    /// Returns the server's name.
    pub fn name(&self) -> &str {
        self.spec().name()
    }

    /// Returns the specification of the program.
    pub fn spec(&self) -> &ServerSpec {
        &self.kind.spec
    }

    /// Returns the launcher.
    pub fn launcher(&self) -> &Arc<dyn ServerLauncher> {
        &self.launcher
    }

    field_setters! {
        prepare_timeout: Duration,
        startup_timeout: Duration,
        probe_timeout: Duration,
        termination: TerminationPolicy,
        call_options: CallOptions,
        limits: TransportLimits,
        protocol: ProtocolPreference,
    }

    #[cfg(feature = "fleet")]
    pub(crate) fn same_process(&self, other: &Self) -> bool {
        self.kind.spec == other.kind.spec
            && (Arc::ptr_eq(&self.launcher, &other.launcher)
                || (self.kind.fingerprint.is_some() && self.kind == other.kind))
            && self.limits == other.limits
            && self.protocol == other.protocol
    }
}

debug_fields!(
    ServerConfig,
    it {
        spec: it.spec(),
        launcher: &it.launcher.name(),
        startup_timeout: &it.startup_timeout
    }
);
