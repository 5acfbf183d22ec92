//! The settings of a [`LifecycleClient`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rmcp::service::{DynService, RoleClient, Service};

use super::call::CallOptions;
use super::era::ProtocolPreference;
use super::error::start::StartError;
use super::event::LifecycleObserver;
use super::lifecycle_client::LifecycleClient;
use super::start;
use super::transport::TransportLimits;
use crate::launch::launcher::ServerLauncher;
use crate::launch::spec::ServerSpec;
use crate::terminate::policy::TerminationPolicy;

/// Describes a [`LifecycleClient`].
#[must_use = "nothing starts until `start`"]
pub struct LifecycleClientBuilder {
    pub(super) launcher: Arc<dyn ServerLauncher>,
    pub(super) spec: ServerSpec,
    pub(super) startup_timeout: Duration,
    pub(super) probe_timeout: Duration,
    pub(super) termination: TerminationPolicy,
    pub(super) limits: TransportLimits,
    pub(super) protocol: ProtocolPreference,
    pub(super) call_options: CallOptions,
    pub(crate) handler: Arc<dyn DynService<RoleClient>>,
    pub(super) observer: Arc<dyn LifecycleObserver>,
}

impl LifecycleClientBuilder {
    pub(super) fn new(launcher: Arc<dyn ServerLauncher>, spec: ServerSpec) -> Self {
        Self {
            launcher,
            spec,
            startup_timeout: Duration::from_secs(30),
            probe_timeout: Duration::from_secs(5),
            termination: TerminationPolicy::default(),
            limits: TransportLimits::default(),
            protocol: ProtocolPreference::default(),
            call_options: CallOptions::default(),
            handler: Arc::new(()),
            observer: Arc::new(()),
        }
    }

    /// Sets how long launch and handshake together may take. 30 s by default.
    pub fn startup_timeout(mut self, timeout: Duration) -> Self {
        self.startup_timeout = timeout;
        self
    }

    /// Sets how long `server/discover` may stay unanswered before the server is
    /// taken for one of the legacy era. 5 s by default. A modern server that is
    /// slower is still recognised when it answers at last.
    pub fn probe_timeout(mut self, timeout: Duration) -> Self {
        self.probe_timeout = timeout;
        self
    }

    /// Sets the waits of the server's end.
    pub fn termination(mut self, policy: TerminationPolicy) -> Self {
        self.termination = policy;
        self
    }

    /// Sets the limits of the streams.
    pub fn limits(mut self, limits: TransportLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets which era of the protocol to speak.
    pub fn protocol(mut self, preference: ProtocolPreference) -> Self {
        self.protocol = preference;
        self
    }

    /// Sets the options of calls that bring none of their own.
    pub fn call_options(mut self, options: CallOptions) -> Self {
        self.call_options = options;
        self
    }

    /// Sets who answers the server's own requests (elicitation, sampling,
    /// roots) and takes its notifications: any rmcp `ClientHandler`.
    pub fn handler(mut self, handler: impl Service<RoleClient>) -> Self {
        self.handler = Arc::new(handler);
        self
    }

    /// Sets who is told what happens.
    pub fn observer(mut self, observer: Arc<dyn LifecycleObserver>) -> Self {
        self.observer = observer;
        self
    }

    /// Launches the server and completes the handshake.
    ///
    /// # Errors
    ///
    /// [`StartError`] says how far it came, why it failed, how the server
    /// exited and what it said last. Whatever had been started was ended before
    /// the error is returned, which can take up to the longest time of the
    /// [`TerminationPolicy`] beyond the start-up timeout.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future leaves nothing of the server behind.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime with time enabled.
    pub async fn start(self) -> Result<LifecycleClient, StartError> {
        start::start(self).await
    }
}

impl fmt::Debug for LifecycleClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LifecycleClientBuilder")
            .field("launcher", &self.launcher)
            .field("spec", &self.spec)
            .field("startup_timeout", &self.startup_timeout)
            .field("termination", &self.termination)
            .field("limits", &self.limits)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}
