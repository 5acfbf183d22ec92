//! Launch and handshake under one deadline.

use std::sync::{Arc, OnceLock};

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use super::builder::LifecycleClientBuilder;
use super::callback::guarded_async;
use super::config::ServerConfig;
use super::era::{Era, ProtocolPreference};
use super::error::start::{StartError, StartErrorContext, StartErrorKind, StartPhase};
use super::event::{Observed, ServerEventKind, StartReason};
use super::handler::SharedHandler;
use super::handshake::{Handshake, handshake};
use super::lifecycle_client::LifecycleClient;
use super::owner::Owner;
use super::peer::LifecyclePeer;
use super::session::Session;
use super::state::ClientState;
use super::stderr;
use super::stderr::StderrTail;
use super::transport::connection::Connection;
use super::watcher::{Pumps, Watcher};
use crate::launch::context::LaunchContext;
use crate::launch::error::launch::{LaunchError, LaunchErrorKind};
use crate::launch::launched::LaunchedServer;
use crate::launch::starting::{OwnedStart, Starting};
use crate::terminate::callback::guarded;
use crate::terminate::handle::ServerHandle;
use crate::terminate::report::EndReason;
use crate::terminate::timing::after;

impl LifecycleClient {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// See [`LifecycleClientBuilder::start`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future leaves nothing of the server behind.
    pub async fn start(server: ServerConfig) -> Result<Self, StartError> {
        Self::builder(server).start().await
    }

    /// Describes a client with a handler or an observer.
    pub fn builder(server: ServerConfig) -> LifecycleClientBuilder {
        LifecycleClientBuilder::new(server)
    }
}

impl LifecycleClientBuilder {
    /// Lets the launcher fetch what it needs, launches the server and completes the
    /// handshake.
    ///
    /// # Errors
    ///
    /// [`StartError`] says how far it came, why it failed, how the server
    /// exited and what it said last. Whatever had been started was ended before
    /// the error is returned, which can take up to the longest time of the
    /// `TerminationPolicy` beyond the start-up timeout.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future leaves nothing of the server behind.
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

/// One start in its two steps, for an owner that must be able to end the server
/// between them.
#[derive(Debug)]
pub(crate) struct StartAttempt {
    builder: LifecycleClientBuilder,
    asked: Instant,
    /// The start of the start-up clock.
    begun: Instant,
    start: OwnedStart,
}

impl StartAttempt {
    pub(crate) fn new(builder: LifecycleClientBuilder) -> Self {
        let now = Instant::now();
        Self {
            builder,
            asked: now,
            begun: now,
            start: OwnedStart(Starting::new()),
        }
    }

    /// The error of a start whose handler could not be made.
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

    /// Prepares and launches. The client owns the server from here on and is not ready.
    pub(crate) async fn launch(&mut self) -> Result<LifecycleClient, StartError> {
        let why = StartReason::Wanted;
        self.observed().event(ServerEventKind::Starting { why });
        let limit = self.config().prepare_timeout;
        let context = self.context(after(self.asked, limit));
        let prepare = self
            .config()
            .launcher()
            .prepare(self.config().spec(), &context);
        match self.in_time(after(self.asked, limit), prepare).await {
            None => {
                let kind = StartErrorKind::PrepareTimeout(limit);
                return Err(self.failed(StartPhase::Prepare, kind));
            }
            Some(Err(kind)) => return Err(self.failed(StartPhase::Prepare, kind)),
            Some(Ok(())) => {}
        }
        self.begun = Instant::now();
        let context = self.context(self.deadline()).with_start(&self.start.0);
        let launch = self
            .config()
            .launcher()
            .launch(self.config().spec(), &context);
        match self.in_time(self.deadline(), launch).await {
            None => {
                let kind = StartErrorKind::Timeout(self.config().startup_timeout);
                Err(self.failed(StartPhase::Launch, kind))
            }
            Some(Err(kind)) => Err(self.failed(StartPhase::Launch, kind)),
            Some(Ok(launched)) => {
                let client = self.take_over(launched);
                self.observed().event(ServerEventKind::Launched {
                    identity: client.identity(),
                    took: self.begun.elapsed(),
                });
                Ok(client)
            }
        }
    }

    fn context(&self, deadline: Instant) -> LaunchContext {
        let observed = self.observed().clone();
        LaunchContext::new()
            .with_deadline(deadline)
            .with_progress(move |step| observed.event(ServerEventKind::Progress(step.clone())))
    }

    /// The launcher's result; `None` when the time was up.
    async fn in_time<T>(
        &self,
        deadline: Instant,
        work: impl Future<Output = Result<T, LaunchError>>,
    ) -> Option<Result<T, StartErrorKind>> {
        let work = guarded_async("the launcher", &self.observed().server, work);
        Some(match timeout_at(deadline, work).await.ok()? {
            Ok(result) => result.map_err(StartErrorKind::Launch),
            Err(panic) => Err(StartErrorKind::Launch(LaunchError::new(
                self.config().launcher().name(),
                self.config().spec(),
                LaunchErrorKind::backend("the launcher panicked", panic),
            ))),
        })
    }

    /// Completes the handshake, or ends the server and says why it had to be.
    pub(crate) async fn complete(&self, client: &LifecycleClient) -> Result<Era, StartError> {
        let kind = match timeout_at(self.deadline(), self.shake_hands(client)).await {
            Ok(Ok(era)) => {
                self.observed().event(ServerEventKind::Ready {
                    identity: client.identity(),
                    era,
                    took: self.begun.elapsed(),
                });
                self.start.0.over();
                return Ok(era);
            }
            Ok(Err(kind)) => kind,
            Err(_) => {
                // It may be that it knows no more what it was asked.
                self.config().kind().remember(None);
                StartErrorKind::Timeout(self.config().startup_timeout)
            }
        };
        self.start.0.over();
        Err(self.undo(client, kind).await)
    }

    /// From here on the client owns the server, and its `Drop` is the safety net.
    fn take_over(&self, launched: LaunchedServer) -> LifecycleClient {
        let LifecycleClientBuilder {
            config,
            handler,
            observed,
        } = &self.builder;
        let parts = launched.into_parts();
        let (handle, stdin) = ServerHandle::new(config.name(), parts.stdin, parts.terminator);
        let wire = Connection::new(stdin, parts.stdout, &config.limits);
        let tail = StderrTail::new(&config.limits);
        let pumps = Pumps {
            writer: tokio::spawn(Arc::clone(&wire.outbox).write_all()),
            stderr: parts.stderr.map(|io| {
                tokio::spawn(stderr::drain(
                    io,
                    Arc::clone(&tail),
                    observed.clone(),
                    config.limits.stderr_line,
                ))
            }),
        };
        let session = Arc::new(Session {
            server: Arc::clone(&observed.server),
            wire,
            stderr: tail,
            handler: SharedHandler::new(&observed.server, Arc::clone(handler)),
            rmcp: OnceLock::new(),
            state: watch::Sender::new(ClientState::Starting),
            calls: TaskTracker::new(),
        });
        let owner = Owner::new(
            handle,
            Arc::clone(&session),
            config.termination.clone(),
            observed.clone(),
        );
        tokio::spawn(Watcher::new(Arc::clone(&owner)).run(pumps));
        LifecycleClient {
            peer: LifecyclePeer::new(session, config.call_options.clone()),
            owner,
        }
    }

    async fn shake_hands(&self, client: &LifecycleClient) -> Result<Era, StartErrorKind> {
        let config = self.config();
        let kind = config.kind();
        let remembered = kind.remembered();
        let session = client.peer.session();
        let result = handshake(Handshake {
            session,
            service: client.owner.service.child_token(),
            limits: &config.limits,
            mode: config.protocol.mode(remembered),
            is_guess: config.protocol == ProtocolPreference::Auto && remembered.is_some(),
            probe_timeout: config.probe_timeout,
        })
        .await;
        kind.remember(result.as_ref().ok().copied());
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

    /// Ends what was started and says why it had to be.
    async fn undo(&self, client: &LifecycleClient, kind: StartErrorKind) -> StartError {
        let elapsed = self.asked.elapsed();
        let policy = self.config().termination.clone();
        let outcome = client.shutdown_with(EndReason::StartFailed, policy).await;
        let context = StartErrorContext {
            elapsed,
            stderr_tail: client.stderr_tail(),
            skipped: client.peer.session().wire.skipped(),
            cleanup: Some(outcome),
            ..self.about(StartPhase::Handshake)
        };
        self.tell_failure(StartError::new(context, kind))
    }

    fn failed(&self, phase: StartPhase, kind: StartErrorKind) -> StartError {
        let config = self.config();
        // A launcher that panics has said so already.
        let unfinished = || config.launcher().unfinished(config.name());
        let unfinished = guarded("the launcher", config.name(), unfinished);
        let context = StartErrorContext {
            unfinished: unfinished.unwrap_or_default(),
            ..self.about(phase)
        };
        self.tell_failure(StartError::new(context, kind))
    }

    fn tell_failure(&self, error: StartError) -> StartError {
        let told = error.clone();
        self.observed()
            .event(ServerEventKind::Failed { error: told });
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
