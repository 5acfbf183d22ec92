//! The two eras of the protocol, and which servers speak which.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{LazyLock, Mutex, PoisonError};

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
    /// specification advises for stdio. What a command spoke is remembered for
    /// the life of this process, so that the question is asked once.
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

/// Commands whose era is known. Bounded: forgetting costs one question.
static REMEMBERED: LazyLock<Mutex<HashMap<u64, Era>>> = LazyLock::new(Mutex::default);
const REMEMBERED_LIMIT: usize = 1024;

/// The key under which the era of a server is remembered.
pub(super) fn key(launcher: &str, spec: &ServerSpec) -> u64 {
    let mut hasher = DefaultHasher::new();
    launcher.hash(&mut hasher);
    spec.program().hash(&mut hasher);
    spec.args().hash(&mut hasher);
    spec.cwd().hash(&mut hasher);
    for (name, value) in spec.options() {
        name.hash(&mut hasher);
        value.to_string().hash(&mut hasher);
    }
    hasher.finish()
}

pub(super) fn remembered(key: u64) -> Option<Era> {
    let eras = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
    eras.get(&key).copied()
}

/// Remembers an era, or forgets it.
pub(super) fn remember(key: u64, era: Option<Era>) {
    let mut eras = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
    match era {
        Some(era) => {
            if eras.len() >= REMEMBERED_LIMIT {
                eras.clear();
            }
            eras.insert(key, era);
        }
        None => drop(eras.remove(&key)),
    }
}
