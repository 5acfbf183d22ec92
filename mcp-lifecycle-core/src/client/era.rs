//! The two eras of the protocol, and the eras of known servers.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use rmcp::model::ProtocolVersion;
use rmcp::service::ClientLifecycleMode;

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
    pub(super) fn of(version: &ProtocolVersion) -> Self {
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

pub(super) fn modern_versions() -> Vec<ProtocolVersion> {
    vec![ProtocolVersion::V_2026_07_28]
}

impl ProtocolPreference {
    pub(super) fn mode(self, remembered: Option<Era>) -> ClientLifecycleMode {
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

/// Remembered eras. Bounded; forgetting one costs one probe.
static REMEMBERED: LazyLock<Lock<Eras>> = LazyLock::new(Lock::default);
const REMEMBERED_LIMIT: usize = 1024;

#[derive(Debug, Default)]
struct Eras {
    known: HashMap<Kind, Era>,
}

impl Eras {
    fn remember(&mut self, kind: &Kind, era: Option<Era>) {
        let Some(era) = era else {
            self.known.remove(kind);
            return;
        };
        if let Some(known) = self.known.get_mut(kind) {
            *known = era;
            return;
        }
        if self.known.len() >= REMEMBERED_LIMIT {
            self.known.clear();
        }
        self.known.insert(kind.clone(), era);
    }
}

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
        eras.known.get(self).copied()
    }

    pub(super) fn remember(&self, era: Option<Era>) {
        let mut eras = REMEMBERED.lock();
        eras.remember(self, era);
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
        eras.remember(&plain, Some(Era::Legacy));
        assert_eq!(eras.known.get(&kind("a", spec())), Some(&Era::Legacy));
        for other in [
            kind("b", spec()),
            kind("a", spec().arg("x")),
            kind("a", spec().env("TOKEN", "x")),
            kind("a", spec().pass_env("TOKEN")),
            kind("a", spec().cwd("/tmp")),
            kind("a", spec().option("image", "x".into())),
        ] {
            assert_eq!(eras.known.get(&other), None, "{other:?}");
        }
        eras.remember(&plain, Some(Era::Modern));
        assert_eq!(eras.known.get(&plain), Some(&Era::Modern));
        eras.remember(&plain, None);
        assert!(eras.known.is_empty());
    }

    #[test]
    fn so_many_are_remembered_and_no_more() {
        let mut eras = Eras::default();
        for n in 0..3 * REMEMBERED_LIMIT {
            let kind = kind("a", spec().arg(n.to_string()));
            eras.remember(&kind, Some(Era::Modern));
            assert!(eras.known.len() <= REMEMBERED_LIMIT);
            assert_eq!(eras.known.get(&kind), Some(&Era::Modern));
        }
    }
}
