//! [`ServerConfig`]: everything about one server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "fleet")]
use super::builder::LifecycleClientBuilder;
use super::call::CallOptions;
use super::era::ProtocolPreference;
use super::lifecycle_client::LifecycleClient;
use super::restart::RestartPolicy;
use super::transport::TransportLimits;
#[cfg(feature = "fleet")]
use crate::launch::launcher::ServerLauncher;
use crate::launch::spec::ServerSpec;
use crate::terminate::policy::TerminationPolicy;

/// Whether a pooled server serves several leases at a time.
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
pub struct ServerConfig {
    pub(crate) spec: Arc<ServerSpec>,
    pub(crate) launcher: Arc<dyn ServerLauncher>,
    /// The launcher's name and fingerprint, asked for once: comparing and listing
    /// configurations runs no code of a launcher.
    pub(crate) launcher_name: Arc<str>,
    fingerprint: Option<Arc<str>>,
    pub(crate) required: bool,
    pub(crate) sharing: Sharing,
    pub(crate) idle_ttl: Option<Duration>,
    pub(crate) max_live: Option<usize>,
    pub(crate) restart: RestartPolicy,
    pub(crate) startup_timeout: Duration,
    pub(crate) termination: TerminationPolicy,
    pub(crate) call_options: CallOptions,
    pub(crate) limits: TransportLimits,
    pub(crate) protocol: ProtocolPreference,
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
            startup_timeout: Duration::from_secs(30),
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

    /// What is started.
    pub fn spec(&self) -> &ServerSpec {
        &self.spec
    }

    /// Where it is started.
    pub fn launcher(&self) -> &Arc<dyn ServerLauncher> {
        &self.launcher
    }

    /// Whether a manager's start fails without it.
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Makes a manager's start fail without it. Off by default.
    #[must_use]
    pub fn required(mut self, required: bool) -> Self {
        self.required = required;
        self
    }

    /// Sets whether a pool leases it to several holders at a time. It does by default.
    #[must_use]
    pub fn sharing(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }

    /// Sets how long a pool keeps it without a lease and without a call in
    /// flight; `None` is for ever. 10 minutes by default.
    #[must_use]
    pub fn idle_ttl(mut self, ttl: Option<Duration>) -> Self {
        self.idle_ttl = ttl;
        self
    }

    /// Sets how many processes of this name a pool may have alive, over all
    /// scopes. No limit of its own by default.
    #[must_use]
    pub fn max_live(mut self, limit: usize) -> Self {
        self.max_live = Some(limit);
        self
    }

    /// Sets when it may start again after a failure.
    #[must_use]
    pub fn restart(mut self, policy: RestartPolicy) -> Self {
        self.restart = policy;
        self
    }

    /// Sets how long launch and handshake together may take. 30 s by default.
    #[must_use]
    pub fn startup_timeout(mut self, timeout: Duration) -> Self {
        self.startup_timeout = timeout;
        self
    }

    /// Sets the waits of its end.
    #[must_use]
    pub fn termination(mut self, policy: TerminationPolicy) -> Self {
        self.termination = policy;
        self
    }

    /// Sets the options of calls that bring none of their own.
    #[must_use]
    pub fn call_options(mut self, options: CallOptions) -> Self {
        self.call_options = options;
        self
    }

    /// Sets the limits of its streams.
    #[must_use]
    pub fn limits(mut self, limits: TransportLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets which era of the protocol to speak.
    #[must_use]
    pub fn protocol(mut self, preference: ProtocolPreference) -> Self {
        self.protocol = preference;
        self
    }

    /// Whether a process of `self` serves as well as one of `other` would.
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

    #[cfg(feature = "fleet")]
    pub(crate) fn client(&self) -> LifecycleClientBuilder {
        LifecycleClient::builder(Arc::clone(&self.launcher), (*self.spec).clone())
            .startup_timeout(self.startup_timeout)
            .termination(self.termination.clone())
            .call_options(self.call_options.clone())
            .limits(self.limits.clone())
            .protocol(self.protocol)
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
