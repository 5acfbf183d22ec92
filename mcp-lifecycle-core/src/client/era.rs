//! The two eras of the protocol, and which servers speak which.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rmcp::model::ProtocolVersion;
use rmcp::service::ClientLifecycleMode;

use crate::launch::spec::ServerSpec;

/// The era of the protocol that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Era {
    /// Until 2025-11-25: a session that begins with `initialize`.
    Legacy,
    /// Since 2026-07-28: stateless, found out by `server/discover`.
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
    /// Ask with `server/discover` and fall back to `initialize`, as the
    /// specification advises for stdio. What a server spoke is remembered for
    /// the life of this process, under its whole specification: one that spoke the legacy
    /// era is not asked again. Should it refuse `initialize` then, it is asked in the same start; a start that
    /// fails otherwise has it asked by the next one.
    #[default]
    Auto,
    /// `initialize` only.
    Legacy,
    /// `server/discover` only.
    Modern,
}

/// The newest version that begins with `initialize`.
pub(super) const LEGACY_VERSION: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// The versions of the modern era, best first.
pub(super) fn modern_versions() -> Vec<ProtocolVersion> {
    vec![ProtocolVersion::V_2026_07_28]
}

impl ProtocolPreference {
    /// The way to shake hands, given the era that is remembered of the server.
    pub(super) fn mode(self, remembered: Option<Era>) -> ClientLifecycleMode {
        match (self, remembered) {
            (Self::Legacy, _) | (Self::Auto, Some(Era::Legacy)) => ClientLifecycleMode::Initialize,
            (Self::Modern, _) => ClientLifecycleMode::Discover {
                preferred_versions: modern_versions(),
            },
            // A server that was modern may have been downgraded meanwhile.
            (Self::Auto, Some(Era::Modern) | None) => ClientLifecycleMode::Auto {
                preferred_versions: modern_versions(),
                legacy_version: Some(LEGACY_VERSION),
            },
        }
    }
}

/// Servers whose era is known. Bounded: forgetting costs one question.
static REMEMBERED: LazyLock<Mutex<Eras>> = LazyLock::new(Mutex::default);
const REMEMBERED_LIMIT: usize = 1024;

/// What was learned of servers, by the whole of what they were started from.
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

/// What decides which program is spoken to: the launcher and the specification, compared by value. Whatever else has
/// changed, an interpreter or a package, shows in the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    launcher: Arc<str>,
    fingerprint: Option<Arc<str>>,
    spec: Arc<ServerSpec>,
}

impl Kind {
    pub(super) fn new(
        launcher: &Arc<str>,
        fingerprint: Option<&Arc<str>>,
        spec: &Arc<ServerSpec>,
    ) -> Self {
        Self {
            launcher: Arc::clone(launcher),
            fingerprint: fingerprint.map(Arc::clone),
            spec: Arc::clone(spec),
        }
    }

    /// The era that it spoke last.
    pub(super) fn remembered(&self) -> Option<Era> {
        let eras = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
        eras.known.get(self).copied()
    }

    /// Remembers an era, or forgets it.
    pub(super) fn remember(&self, era: Option<Era>) {
        let mut eras = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
        eras.remember(self, era);
    }
}

impl Hash for Kind {
    /// By a part: the rest is compared.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.launcher.hash(state);
        self.spec.name().hash(state);
        self.spec.program().hash(state);
        self.spec.args().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use crate::launch::spec::ServerSpecBuilder;

    use super::*;

    fn kind(fingerprint: &str, spec: ServerSpecBuilder) -> Kind {
        let spec = Arc::new(spec.build().unwrap());
        Kind::new(&Arc::from("fake"), Some(&Arc::from(fingerprint)), &spec)
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
