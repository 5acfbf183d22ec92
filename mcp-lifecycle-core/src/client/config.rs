//! [`ServerConfig`]: everything about one server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::era::{Kind, ProtocolPreference};
use super::options::CallOptions;
use super::restart::RestartPolicy;
use super::transport::TransportLimits;
use crate::launch::launcher::ServerLauncher;
use crate::launch::setters::setters;
use crate::launch::spec::ServerSpec;
use crate::terminate::policy::TerminationPolicy;

/// The longest time `server/discover` may stay unanswered, unless it is set.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of leases that a pooled server serves at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Sharing {
    /// Any number of leases at a time.
    #[default]
    Shared,
    /// One lease at a time; others wait for it, first come, first served.
    Exclusive,
}

/// Everything about one server: what to start, where, and how to treat it.
///
/// Two configurations stand for the same process if what makes the process is equal:
/// the specification, the launcher (by its
/// [`fingerprint`](ServerLauncher::fingerprint)), the limits and the protocol. The
/// other settings govern a process from outside and change under it. So a host may
/// read its configuration as often as it likes. The handler of the server's own
/// requests belongs to the manager or the pool, not here.
///
/// Clones are cheap. `Debug` shows no values of the environment.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    spec: Arc<ServerSpec>,
    launcher: Arc<dyn ServerLauncher>,
    /// The launcher's name and fingerprint, asked for once: comparing and listing
    /// configurations runs no code of a launcher.
    pub(crate) launcher_name: Arc<str>,
    fingerprint: Option<Arc<str>>,
    /// `true` if a manager's refresh fails without it.
    pub required: bool,
    /// The number of holders to whom a pool leases it at a time.
    pub sharing: Sharing,
    /// How long a pool keeps an unused server; `None` means for ever.
    pub idle_ttl: Option<Duration>,
    /// How many processes of this server a pool may have alive.
    pub max_live: Option<usize>,
    /// The rules by which a manager or a pool starts it again.
    pub restart: RestartPolicy,
    /// The longest time the launcher may take to fetch what it needs.
    pub prepare_timeout: Duration,
    /// The longest time launch and handshake may take.
    pub startup_timeout: Duration,
    /// How long `server/discover` may stay unanswered before the legacy era is assumed.
    pub probe_timeout: Duration,
    /// The time limits of the server's end.
    pub termination: TerminationPolicy,
    /// The options of calls that bring none of their own.
    pub call_options: CallOptions,
    /// The limits of its streams.
    pub limits: TransportLimits,
    /// The era of the protocol to speak.
    pub protocol: ProtocolPreference,
}

impl ServerConfig {
    /// A server with the default settings.
    pub fn new(launcher: Arc<dyn ServerLauncher>, spec: ServerSpec) -> Self {
        Self {
            spec: Arc::new(spec),
            launcher_name: launcher.name().into(),
            fingerprint: launcher.fingerprint().map(Arc::from),
            launcher,
            required: false,
            sharing: Sharing::default(),
            idle_ttl: Some(Duration::from_secs(600)),
            max_live: None,
            restart: RestartPolicy::default(),
            prepare_timeout: Duration::from_secs(600),
            startup_timeout: Duration::from_secs(30),
            probe_timeout: PROBE_TIMEOUT,
            termination: TerminationPolicy::default(),
            call_options: CallOptions::default(),
            limits: TransportLimits::default(),
            protocol: ProtocolPreference::default(),
        }
    }

    /// The server's name.
    pub fn name(&self) -> &str {
        self.spec.name()
    }

    /// The description of the program that is started.
    pub fn spec(&self) -> &ServerSpec {
        &self.spec
    }

    /// What its era is remembered under.
    pub(super) fn kind(&self) -> Kind {
        Kind::new(&self.launcher_name, self.fingerprint.as_ref(), &self.spec)
    }

    /// The launcher that starts it.
    pub fn launcher(&self) -> &Arc<dyn ServerLauncher> {
        &self.launcher
    }

    setters! {
        /// Makes a manager's refresh fail without it. Off by default.
        with_required(required: bool);
        /// Sets whether a pool leases it to several holders at a time. It does by default.
        with_sharing(sharing: Sharing);
        /// Sets how long a pool keeps it without a lease and without a call in
        /// flight; `None` is for ever. 10 minutes by default.
        with_idle_ttl(idle_ttl: impl Into<Option<Duration>>);
        /// Sets how many processes of this name a pool may have alive, over all
        /// scopes. No limit by default.
        with_max_live(max_live: impl Into<Option<usize>>);
        /// Sets when a manager or a pool may start it again after a failure.
        with_restart(restart: RestartPolicy);
        /// Sets how long the launcher may take to fetch what it needs, an image, before
        /// the start-up clock begins. 10 minutes by default.
        with_prepare_timeout(prepare_timeout: Duration);
        /// Sets how long launch and handshake together may take. 30 s by default.
        with_startup_timeout(startup_timeout: Duration);
        /// Sets how long `server/discover` may stay unanswered before the server is
        /// taken for one of the legacy era. 5 s by default. A modern server that is
        /// slower is still recognised when it answers at last.
        with_probe_timeout(probe_timeout: Duration);
        /// Sets the waits of its end.
        with_termination(termination: TerminationPolicy);
        /// Sets the options of calls that bring none of their own.
        with_call_options(call_options: CallOptions);
        /// Sets the limits of its streams.
        with_limits(limits: TransportLimits);
        /// Sets which era of the protocol to speak.
        with_protocol(protocol: ProtocolPreference);
    }

    /// Returns whether a process of `self` serves as well as one of `other` would.
    /// What only governs a process from outside does not matter.
    pub fn same_process(&self, other: &Self) -> bool {
        self.spec == other.spec
            && (Arc::ptr_eq(&self.launcher, &other.launcher)
                || (self.fingerprint.is_some()
                    && self.fingerprint == other.fingerprint
                    && self.launcher_name == other.launcher_name))
            && self.limits == other.limits
            && self.protocol == other.protocol
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("spec", &self.spec)
            .field("launcher", &self.launcher.name())
            .field("required", &self.required)
            .field("sharing", &self.sharing)
            .field("idle_ttl", &self.idle_ttl)
            .field("restart", &self.restart)
            .field("startup_timeout", &self.startup_timeout)
            .finish_non_exhaustive()
    }
}
