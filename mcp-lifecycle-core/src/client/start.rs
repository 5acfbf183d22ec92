//! Launch and handshake under one deadline.

use std::sync::{Arc, OnceLock};

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use super::builder::LifecycleClientBuilder;
use super::error::start::{StartError, StartErrorKind, StartPhase};
use super::event::{LifecycleEvent, Observed};
use super::handler::SharedHandler;
use super::handshake::{Handshake, handshake};
use super::lifecycle_client::LifecycleClient;
use super::owner::Owner;
use super::peer::LifecyclePeer;
use super::session::Session;
use super::state::ClientState;
use super::stderr::StderrTail;
use super::transport::stdio::Wire;
use super::watcher::Pumps;
use super::{era, stderr};
use crate::client::callback::guarded_async;
use crate::launch::error::launch::{LaunchError, LaunchErrorKind};
use crate::launch::launcher::LaunchedServer;
use crate::terminate::callback::guarded;
use crate::terminate::handle::ServerHandle;
use crate::terminate::report::EndReason;
use crate::terminate::timing::after;

pub(super) async fn start(builder: LifecycleClientBuilder) -> Result<LifecycleClient, StartError> {
    let attempt = StartAttempt::new(builder);
    let client = attempt.launch().await?;
    match attempt.complete(&client).await {
        Ok(()) => Ok(client),
        Err(error) => Err(error),
    }
}

/// One start in its two steps, for an owner that must be able to end the server
/// between them.
#[derive(Debug)]
pub(crate) struct StartAttempt {
    builder: LifecycleClientBuilder,
    observed: Observed,
    begun: Instant,
}

impl StartAttempt {
    /// The start-up clock begins here.
    pub(crate) fn new(builder: LifecycleClientBuilder) -> Self {
        let observed = Observed::new(builder.spec.name(), Arc::clone(&builder.observer));
        Self {
            builder,
            observed,
            begun: Instant::now(),
        }
    }

    /// The error of a start whose handler could not be made.
    #[cfg(feature = "fleet")]
    pub(crate) fn without_handler(&self) -> StartError {
        let kind = StartErrorKind::Handler;
        failed(
            &self.builder,
            &self.observed,
            self.begun,
            StartPhase::Launch,
            kind,
        )
    }

    fn deadline(&self) -> Instant {
        after(self.begun, self.builder.startup_timeout)
    }

    /// Launches. The client owns the server from here on and is not ready.
    pub(crate) async fn launch(&self) -> Result<LifecycleClient, StartError> {
        let Self {
            builder,
            observed,
            begun,
        } = self;
        observed.event(&LifecycleEvent::Starting);
        let launch = async { builder.launcher.launch(&builder.spec).await };
        let launch = guarded_async("the launcher", observed.server(), launch);
        let kind = match timeout_at(self.deadline(), launch).await {
            Ok(Ok(Ok(launched))) => {
                let client = take_over(builder, observed, launched);
                observed.event(&LifecycleEvent::Launched {
                    identity: &client.identity(),
                    took: begun.elapsed(),
                });
                return Ok(client);
            }
            Ok(Ok(Err(error))) => StartErrorKind::Launch(error),
            Ok(Err(panic)) => StartErrorKind::Launch(LaunchError::new(
                builder.launcher.name(),
                &builder.spec,
                LaunchErrorKind::backend("the launcher panicked", panic),
            )),
            Err(_) => StartErrorKind::Timeout(builder.startup_timeout),
        };
        Err(failed(builder, observed, *begun, StartPhase::Launch, kind))
    }

    /// Completes the handshake, or ends the server and says why it had to be.
    pub(crate) async fn complete(&self, client: &LifecycleClient) -> Result<(), StartError> {
        let Self {
            builder,
            observed,
            begun,
        } = self;
        let kind = match timeout_at(self.deadline(), shake_hands(builder, client)).await {
            Ok(Ok(era)) => {
                observed.event(&LifecycleEvent::Ready {
                    era,
                    took: begun.elapsed(),
                });
                return Ok(());
            }
            Ok(Err(kind)) => kind,
            Err(_) => StartErrorKind::Timeout(builder.startup_timeout),
        };
        Err(undo(builder, observed, *begun, client, kind).await)
    }
}

/// From here on the client owns the server, and its `Drop` is the safety net.
fn take_over(
    builder: &LifecycleClientBuilder,
    observed: &Observed,
    launched: LaunchedServer,
) -> LifecycleClient {
    let parts = launched.into_parts();
    let (handle, stdin) = ServerHandle::new(builder.spec.name(), parts.stdin, parts.terminator);
    let wire = Wire::new(stdin, parts.stdout, &builder.limits);
    let tail = StderrTail::new(&builder.limits);
    let pumps = Pumps {
        writer: tokio::spawn(Arc::clone(&wire.outbox).write_all()),
        stderr: parts.stderr.map(|io| {
            tokio::spawn(stderr::drain(
                io,
                Arc::clone(&tail),
                observed.clone(),
                builder.limits.stderr_line,
            ))
        }),
    };
    let session = Arc::new(Session {
        server: observed.server().into(),
        wire,
        stderr: tail,
        handler: SharedHandler::new(observed.server(), Arc::clone(&builder.handler)),
        rmcp: OnceLock::new(),
        state: watch::Sender::new(ClientState::Starting),
        calls: TaskTracker::new(),
    });
    let owner = Owner::watch_over(
        handle,
        Arc::clone(&session),
        builder.termination.clone(),
        observed.clone(),
        pumps,
    );
    LifecycleClient {
        peer: LifecyclePeer::new(session, builder.call_options.clone()),
        owner,
    }
}

async fn shake_hands(
    builder: &LifecycleClientBuilder,
    client: &LifecycleClient,
) -> Result<crate::client::era::Era, StartErrorKind> {
    let key = era::key(builder.launcher.name(), &builder.spec);
    let session = client.peer.session();
    let result = handshake(Handshake {
        session,
        service: client.owner.service.child_token(),
        limits: &builder.limits,
        mode: builder.protocol.mode(era::remembered(key)),
        probe_timeout: builder.probe_timeout,
    })
    .await;
    era::remember(key, result.as_ref().ok().copied());
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
async fn undo(
    builder: &LifecycleClientBuilder,
    observed: &Observed,
    begun: Instant,
    client: &LifecycleClient,
    kind: StartErrorKind,
) -> StartError {
    let elapsed = begun.elapsed();
    let outcome = client
        .shutdown_with(EndReason::StartFailed, builder.termination.clone())
        .await;
    let error = StartError {
        elapsed,
        stderr_tail: client.stderr_tail(),
        skipped: client.peer.session().wire.skipped(),
        cleanup: Some(outcome),
        ..bare(builder, StartPhase::Handshake, kind)
    };
    observed.event(&LifecycleEvent::StartFailed { error: &error });
    error
}

fn failed(
    builder: &LifecycleClientBuilder,
    observed: &Observed,
    begun: Instant,
    phase: StartPhase,
    kind: StartErrorKind,
) -> StartError {
    // A launcher that panics has said so already.
    let unfinished = || builder.launcher.unfinished(builder.spec.name());
    let unfinished = guarded("the launcher", builder.spec.name(), unfinished);
    let error = StartError {
        elapsed: begun.elapsed(),
        unfinished: unfinished.unwrap_or_default(),
        ..bare(builder, phase, kind)
    };
    observed.event(&LifecycleEvent::StartFailed { error: &error });
    error
}

fn bare(builder: &LifecycleClientBuilder, phase: StartPhase, kind: StartErrorKind) -> StartError {
    StartError {
        server: builder.spec.name().to_owned(),
        command: builder.spec.display_command().to_string(),
        phase,
        elapsed: std::time::Duration::ZERO,
        kind,
        stderr_tail: Vec::new(),
        skipped: None,
        cleanup: None,
        unfinished: Vec::new(),
    }
}

impl StartError {
    /// The launcher's own classification, when the launch failed.
    pub fn launch_error(&self) -> Option<&LaunchErrorKind> {
        match &self.kind {
            StartErrorKind::Launch(error) => Some(error.kind()),
            _ => None,
        }
    }
}
