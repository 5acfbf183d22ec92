//! The handshake in the era that a server speaks, the eras of known servers, and the reason of a
//! failure.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rmcp::model::{ErrorData, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, serve_client_with_lifecycle_and_ct,
};

use super::session::Session;
use super::transport::decode::{LIFECYCLE_ERROR, LifecycleFault};
use super::transport::stdio::StdioTransport;
use super::{CallErrorKind, ServerConfig, StartErrorKind};
use crate::launch::ServerSpec;
use crate::lock::Lock;

/// The era of the protocol that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Era {
    /// Until 2025-11-25: a session that begins with `initialize`.
    Legacy,
    /// Since 2026-07-28: stateless, detected by `server/discover`.
    Modern,
}

impl Era {
    fn of(version: &ProtocolVersion) -> Self {
        if version.has_initialize() {
            Self::Legacy
        } else {
            Self::Modern
        }
    }
}

/// The era to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ProtocolPreference {
    /// Probe with `server/discover` and fall back to `initialize`, as the specification advises for
    /// stdio. The era is remembered per specification for the life of this process; a server that
    /// then refuses it is probed in the same start.
    #[default]
    Auto,
    /// `initialize` only.
    Legacy,
    /// `server/discover` only.
    Modern,
}

pub(super) const LEGACY_VERSION: ProtocolVersion = ProtocolVersion::V_2025_11_25;

fn modern_versions() -> Vec<ProtocolVersion> {
    vec![ProtocolVersion::V_2026_07_28]
}

impl ProtocolPreference {
    fn mode(self, remembered: Option<Era>) -> ClientLifecycleMode {
        match (self, remembered) {
            (Self::Legacy, _) | (Self::Auto, Some(Era::Legacy)) => ClientLifecycleMode::Initialize,
            (Self::Modern, _) => ClientLifecycleMode::Discover {
                preferred_versions: modern_versions(),
            },
            // A modern server may have been downgraded.
            (Self::Auto, Some(Era::Modern) | None) => ClientLifecycleMode::Auto {
                preferred_versions: modern_versions(),
                legacy_version: Some(LEGACY_VERSION),
            },
        }
    }
}

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

/// Remembered eras. Bounded; forgetting one costs one probe.
static REMEMBERED: LazyLock<Lock<Eras>> = LazyLock::new(Lock::default);
const REMEMBERED_LIMIT: usize = 1024;

type Eras = HashMap<Kind, Era>;

/// The identity of a program: launcher and specification, compared by value. Other changes, as of
/// an interpreter or a package, show in the handshake.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub(crate) launcher: Arc<str>,
    pub(super) fingerprint: Option<Arc<str>>,
    pub(super) spec: Arc<ServerSpec>,
}

impl Kind {
    pub(super) fn remembered(&self) -> Option<Era> {
        let eras = REMEMBERED.lock();
        eras.get(self).copied()
    }

    pub(super) fn remember(&self, era: Option<Era>) {
        self.remember_in(&mut REMEMBERED.lock(), era);
    }

    fn remember_in(&self, eras: &mut Eras, era: Option<Era>) {
        let Some(era) = era else {
            eras.remove(self);
            return;
        };
        if eras.len() >= REMEMBERED_LIMIT && !eras.contains_key(self) {
            eras.clear();
        }
        eras.insert(self.clone(), era);
    }
}

#[cfg(test)]
mod tests {
    use crate::launch::spec::ServerSpecBuilder;

    use super::*;

    fn kind(fingerprint: &str, spec: ServerSpecBuilder) -> Kind {
        Kind {
            launcher: Arc::from("fake"),
            fingerprint: Some(Arc::from(fingerprint)),
            spec: Arc::new(spec.build().unwrap()),
        }
    }

    fn spec() -> ServerSpecBuilder {
        ServerSpec::builder("s", "server").arg("--stdio")
    }

    #[test]
    fn servers_that_differ_in_anything_are_told_apart() {
        let mut eras = Eras::default();
        let plain = kind("a", spec());
        plain.remember_in(&mut eras, Some(Era::Legacy));
        assert_eq!(eras.get(&kind("a", spec())), Some(&Era::Legacy));
        for other in [
            kind("b", spec()),
            kind("a", spec().arg("x")),
            kind("a", spec().env("TOKEN", "x")),
            kind("a", spec().pass_env("TOKEN")),
            kind("a", spec().cwd("/tmp")),
            kind("a", spec().option("image", "x".into())),
        ] {
            assert_eq!(eras.get(&other), None, "{other:?}");
        }
        plain.remember_in(&mut eras, Some(Era::Modern));
        assert_eq!(eras.get(&plain), Some(&Era::Modern));
        plain.remember_in(&mut eras, None);
        assert!(eras.is_empty());
    }

    #[test]
    fn so_many_are_remembered_and_no_more() {
        let mut eras = Eras::default();
        for n in 0..3 * REMEMBERED_LIMIT {
            let kind = kind("a", spec().arg(n.to_string()));
            kind.remember_in(&mut eras, Some(Era::Modern));
            assert!(eras.len() <= REMEMBERED_LIMIT);
            assert_eq!(eras.get(&kind), Some(&Era::Modern));
        }
    }
}
