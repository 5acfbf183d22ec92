//! Launch and handshake under one deadline.

use std::sync::Arc;

use rmcp::service::{DynService, RoleClient, Service};
use tokio::time::{Instant, timeout_at};

use super::event::Observed;
use super::handshake::handshake;
use super::session::Session;
use super::{
    ClientState, Era, LifecycleClient, LifecyclePeer, ServerConfig, ServerEventKind,
    ServerObserver, StartError, StartErrorContext, StartErrorKind, StartPhase, StartReason,
};
use crate::launch::macros::debug_fields;
use crate::launch::{LaunchContext, LaunchError, LaunchErrorKind, LaunchedServer};
use crate::terminate::EndReason;
use crate::terminate::callback::{guarded, guarded_async};
use crate::terminate::timing::after;

impl LifecycleClient {
    /// Starts a server as [`LifecycleClientBuilder::start`] does, with the default handler and
    /// observer.
    pub async fn start(server: ServerConfig) -> Result<Self, StartError> {
        Self::builder(server).start().await
    }

    /// Returns a builder, to set a handler or an observer.
    pub fn builder(server: ServerConfig) -> LifecycleClientBuilder {
        LifecycleClientBuilder::new(server)
    }
}

/// Builds a [`LifecycleClient`].
#[must_use = "nothing starts until `start`"]
pub struct LifecycleClientBuilder {
    config: ServerConfig,
    pub(crate) handler: Arc<dyn DynService<RoleClient>>,
    pub(crate) observed: Observed,
}

impl LifecycleClientBuilder {
    pub(crate) fn new(config: ServerConfig) -> Self {
        let observed = Observed::standalone(config.name());
        Self {
            config,
            handler: Arc::new(()),
            observed,
        }
    }

    /// Sets the handler of the server's requests (elicitation, sampling, roots) and notifications:
    /// any rmcp `ClientHandler`.
    pub fn handler(mut self, handler: impl Service<RoleClient>) -> Self {
        self.handler = Arc::new(handler);
        self
    }

    /// Sets the observer of the server's events.
    pub fn observer(mut self, observer: impl ServerObserver) -> Self {
        self.observed.observer = Some(Arc::new(observer));
        self
    }

    /// Lets the launcher fetch what it needs, launches the server and completes the handshake.
    /// Cancel safe: dropping the future leaves nothing of the server behind.
    ///
    /// # Errors
    ///
    /// [`StartError`] holds the failed step, its reason, the server's exit status and its last
    /// output. Everything that had been started is ended first, which can take the
    /// `TerminationPolicy`'s longest time beyond the start-up timeout.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime with time enabled.
    pub async fn start(self) -> Result<LifecycleClient, StartError> {
        let mut attempt = StartAttempt::new(self);
        let client = attempt.launch().await?;
        attempt.complete(&client).await?;
        Ok(client)
    }
}

debug_fields!(LifecycleClientBuilder, it { config: &it.config });

/// One start in two steps, for an owner that must be able to end the server in between.
#[derive(Debug)]
pub(crate) struct StartAttempt {
    builder: LifecycleClientBuilder,
    asked: Instant,
    begun: Instant,
}

impl StartAttempt {
    pub(crate) fn new(builder: LifecycleClientBuilder) -> Self {
        let now = Instant::now();
        Self {
            builder,
            asked: now,
            begun: now,
        }
    }

    #[cfg(feature = "fleet")]
    pub(crate) fn without_handler(&self) -> StartError {
        self.failed(StartPhase::Launch, StartErrorKind::Handler)
    }

    fn observed(&self) -> &Observed {
        &self.builder.observed
    }

    fn config(&self) -> &ServerConfig {
        &self.builder.config
    }

    fn deadline(&self) -> Instant {
        after(self.begun, self.config().startup_timeout)
    }

    pub(crate) async fn launch(&mut self) -> Result<LifecycleClient, StartError> {
        let why = StartReason::Wanted;
        self.observed().event(ServerEventKind::Starting { why });
        let limit = self.config().prepare_timeout;
        let until = after(self.asked, limit);
        let context = self.context(until);
        let (launcher, spec) = (self.config().launcher(), self.config().spec());
        let prepare = launcher.prepare(spec, &context);
        let late = StartErrorKind::PrepareTimeout(limit);
        self.in_time(StartPhase::Prepare, until, late, prepare)
            .await?;
        self.begun = Instant::now();
        let until = self.deadline();
        let context = self.context(until);
        let (launcher, spec) = (self.config().launcher(), self.config().spec());
        let launch = launcher.launch(spec, &context);
        let late = StartErrorKind::Timeout(self.config().startup_timeout);
        let launched = self
            .in_time(StartPhase::Launch, until, late, launch)
            .await?;
        let client = self.take_over(launched);
        self.observed().event(ServerEventKind::Launched {
            identity: client.identity(),
            took: self.begun.elapsed(),
        });
        Ok(client)
    }

    fn context(&self, deadline: Instant) -> LaunchContext {
        let observed = self.observed().clone();
        LaunchContext::new()
            .with_deadline(deadline)
            .with_progress(move |step| observed.event(ServerEventKind::Progress(step.clone())))
    }

    async fn in_time<T>(
        &self,
        phase: StartPhase,
        deadline: Instant,
        late: StartErrorKind,
        work: impl Future<Output = Result<T, LaunchError>>,
    ) -> Result<T, StartError> {
        let work = guarded_async("the launcher", &self.observed().server, work);
        let kind = match timeout_at(deadline, work).await {
            Ok(Ok(Ok(done))) => return Ok(done),
            Ok(Ok(Err(error))) => StartErrorKind::Launch(error),
            Ok(Err(panic)) => StartErrorKind::Launch(LaunchError::new(
                self.config().launcher().name(),
                self.config().spec(),
                LaunchErrorKind::backend("the launcher panicked", panic),
            )),
            Err(_) => late,
        };
        Err(self.failed(phase, kind))
    }

    pub(crate) async fn complete(&self, client: &LifecycleClient) -> Result<Era, StartError> {
        let kind = match timeout_at(self.deadline(), self.shake_hands(client)).await {
            Ok(Ok(era)) => {
                self.observed().event(ServerEventKind::Ready {
                    identity: client.identity(),
                    era,
                    took: self.begun.elapsed(),
                });
                return Ok(era);
            }
            Ok(Err(kind)) => kind,
            Err(_) => {
                // The remembered era may be wrong.
                self.config().kind.remember(None);
                StartErrorKind::Timeout(self.config().startup_timeout)
            }
        };
        Err(self.undo(client, kind).await)
    }

    /// Takes over the server. From here on the client's `Drop` kills it.
    fn take_over(&self, launched: LaunchedServer) -> LifecycleClient {
        let LifecycleClientBuilder {
            config,
            handler,
            observed,
        } = &self.builder;
        let (observed, handler) = (observed.clone(), Arc::clone(handler));
        let policy = config.termination.clone();
        let (session, handle) = Session::open(launched, observed, handler, &config.limits, policy);
        LifecycleClient {
            peer: LifecyclePeer::new(session, config.call_options.clone()),
            handle,
        }
    }

    async fn shake_hands(&self, client: &LifecycleClient) -> Result<Era, StartErrorKind> {
        let config = self.config();
        let session = client.peer.session();
        let result = handshake(session, config).await;
        config.kind.remember(result.as_ref().ok().copied());
        let era = result?;
        // An end that began meanwhile stands.
        session.state.send_if_modified(|state| {
            let starting = matches!(state, ClientState::Starting);
            if starting {
                *state = ClientState::Ready { era };
            }
            starting
        });
        Ok(era)
    }

    async fn undo(&self, client: &LifecycleClient, kind: StartErrorKind) -> StartError {
        let elapsed = self.asked.elapsed();
        let policy = self.config().termination.clone();
        let outcome = client.shutdown_with(EndReason::StartFailed, policy).await;
        let context = StartErrorContext {
            elapsed,
            stderr_tail: client.stderr_tail(),
            skipped: client.peer.session().wire.skipped.lock().clone(),
            cleanup: Some(outcome),
            ..self.about(StartPhase::Handshake)
        };
        self.report(context, kind)
    }

    fn failed(&self, phase: StartPhase, kind: StartErrorKind) -> StartError {
        let config = self.config();
        let unfinished = || config.launcher().unfinished(config.name());
        let unfinished = guarded("the launcher", config.name(), unfinished);
        let context = StartErrorContext {
            unfinished: unfinished.unwrap_or_default(),
            ..self.about(phase)
        };
        self.report(context, kind)
    }

    fn report(&self, context: StartErrorContext, kind: StartErrorKind) -> StartError {
        let error = StartError::new(context, kind);
        let failed = error.clone();
        self.observed()
            .event(ServerEventKind::Failed { error: failed });
        error
    }

    fn about(&self, phase: StartPhase) -> StartErrorContext {
        StartErrorContext {
            server: self.config().name().to_owned(),
            command: self.config().spec().display_command().to_string(),
            phase,
            elapsed: self.asked.elapsed(),
            stderr_tail: Vec::new(),
            skipped: None,
            cleanup: None,
            unfinished: Vec::new(),
        }
    }
}
