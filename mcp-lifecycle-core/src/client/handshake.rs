//! The handshake in either era, and the reason of its failure.

use std::time::Duration;

use rmcp::model::{ErrorData, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, serve_client_with_lifecycle_and_ct,
};

use super::era::modern_versions;
use super::session::Session;
use super::transport::decode::{LIFECYCLE_ERROR, LifecycleFault};
use super::transport::stdio::StdioTransport;
use super::{CallErrorKind, Era, ProtocolPreference, ServerConfig, StartErrorKind};

pub(super) async fn handshake(
    session: &Session,
    config: &ServerConfig,
) -> Result<Era, StartErrorKind> {
    let remembered = config.kind.remembered();
    let mode = config.protocol.mode(remembered);
    let is_guess = config.protocol == ProtocolPreference::Auto && remembered.is_some();
    let service = session.service.child_token();
    let attempt = async |mode: ClientLifecycleMode, probe: Option<Duration>| {
        let transport = StdioTransport::new(session.wire.clone(), &config.limits, probe);
        let handler = session.handler.clone();
        serve_client_with_lifecycle_and_ct(handler, transport, mode, service.clone()).await
    };
    let discover = || ClientLifecycleMode::Discover {
        preferred_versions: modern_versions(),
    };
    let probe = matches!(mode, ClientLifecycleMode::Auto { .. }).then_some(config.probe_timeout);
    let mut result = attempt(mode.clone(), probe).await;
    if let (Err(error), ClientLifecycleMode::Auto { .. }) = (&result, &mode) {
        if refused(error).is_some() && session.wire.late_discover() {
            // A slow modern server: it answered the probe late and does not support `initialize`.
            result = attempt(discover(), None).await;
        } else if matches!(error, ClientInitializeError::ExpectedInitResult(_)) {
            // A legacy server that answers any method with a result.
            result = attempt(ClientLifecycleMode::Initialize, None).await;
        }
    }
    if let (Err(error), ClientLifecycleMode::Initialize, true) = (&result, &mode, is_guess)
        && refused(error).is_some_and(|data| data.code != LIFECYCLE_ERROR)
        && let Ok(running) = attempt(discover(), Some(config.probe_timeout)).await
    {
        // A former legacy server may have been replaced. If it is not modern either, its refusal
        // stands.
        result = Ok(running);
    }
    let running = match result {
        Ok(running) => running,
        Err(error) => return Err(explain(error, session).await),
    };
    let info = running.peer().peer_info();
    let version = info.map(|info| info.protocol_version.clone());
    let version = match version {
        Some(version) if ProtocolVersion::KNOWN_VERSIONS.contains(&version) => version,
        other => {
            return Err(StartErrorKind::ProtocolVersion {
                server: other.iter().map(ToString::to_string).collect(),
            });
        }
    };
    let _ = session.rmcp.set(running);
    Ok(Era::of(&version))
}

fn refused(error: &ClientInitializeError) -> Option<&ErrorData> {
    match error {
        ClientInitializeError::JsonRpcError(data) => Some(data),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => refused(fallback),
        _ => None,
    }
}

async fn explain(error: ClientInitializeError, session: &Session) -> StartErrorKind {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            Box::pin(explain(*fallback, session)).await
        }
        ClientInitializeError::ConnectionClosed(_)
        | ClientInitializeError::TransportError { .. } => match session.broken().await {
            Some(CallErrorKind::ServerDied { exit, .. }) => StartErrorKind::Exited(exit),
            Some(CallErrorKind::Ending(_)) => StartErrorKind::Cancelled,
            Some(CallErrorKind::InputClosed) => StartErrorKind::InputClosed,
            _ => StartErrorKind::OutputClosed,
        },
        ClientInitializeError::JsonRpcError(data) => {
            StartErrorKind::Malformed(match LifecycleFault::of(&data) {
                Some(LifecycleFault::TooLarge { limit }) => {
                    format!("over the limit of {limit} bytes for one message")
                }
                Some(LifecycleFault::Malformed { problem }) => problem,
                Some(LifecycleFault::NoAnswer) => "no answer".to_owned(),
                None => return StartErrorKind::Refused(Box::new(data)),
            })
        }
        ClientInitializeError::NoCompatibleProtocolVersion {
            server_supported, ..
        } => StartErrorKind::ProtocolVersion {
            server: server_supported.iter().map(ToString::to_string).collect(),
        },
        ClientInitializeError::Cancelled => StartErrorKind::Cancelled,
        other => StartErrorKind::Malformed(other.to_string()),
    }
}
