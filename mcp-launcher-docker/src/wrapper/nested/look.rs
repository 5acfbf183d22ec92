//! The search for the containers of a server, and the result of a look.

use std::time::Duration;

use mcp_lifecycle_core::launch::{ErrorChain, Remnant};
use tokio::time::timeout;

use super::Swept;
use crate::engine::{Engine, EngineError};
use crate::labels;
use crate::origin::{self, Origin};
use crate::wrapper::bridge::Bridge;
use crate::wrapper::cli::Cli;
use crate::wrapper::proxy::Proxy;

/// How the containers of a server are found.
#[derive(Debug)]
pub(in super::super) enum Means {
    /// By the API, with a fence around creates.
    Proxy {
        proxy: Proxy,
        engine: Box<Engine>,
        /// By which the proxy reaches it, where it is remote.
        #[expect(dead_code, reason = "kept for its drop")]
        bridge: Option<Bridge>,
        /// The labels are in the command line as well.
        labelled: bool,
    },
    /// By the command that created them.
    Cli { cli: Cli, keep: bool },
}

/// A look that told nothing.
#[derive(Debug)]
pub(super) struct Blind {
    pub(super) problem: String,
    /// The command that was to look does not exist.
    pub(super) no_program: bool,
}

impl Means {
    /// Returns whether no create is under way, after so long at the most.
    pub(super) async fn settled(&self, patience: Duration) -> bool {
        match self {
            Self::Proxy { proxy, .. } => timeout(patience, proxy.fence().empty()).await.is_ok(),
            Self::Cli { .. } => true,
        }
    }

    /// Returns whether there can be no container, although a look told nothing and
    /// none has shown anything yet.
    pub(super) fn has_nothing(&self, blind: &Blind, launched: bool) -> bool {
        match self {
            // What has our labels in its command line is looked for in any
            // case. But it was given the proxy for its engine.
            Self::Proxy { proxy, .. } => !proxy.fence().is_used(),
            // What cannot be run has not run.
            Self::Cli { .. } => blind.no_program && !launched,
        }
    }

    /// Finds the containers that are to be ended, and those to be kept.
    pub(super) async fn look(&self, launch: &str) -> Result<Swept, Blind> {
        match self {
            // Nobody but the proxy gives the label: the engine of a server that
            // never created anything is not even asked.
            Self::Proxy {
                proxy,
                labelled: false,
                ..
            } if !proxy.fence().is_used() => Ok(Swept::default()),
            Self::Proxy { engine, proxy, .. } => {
                look_at(engine, proxy, launch).await.map_err(|error| Blind {
                    problem: ErrorChain(&error).to_string(),
                    no_program: false,
                })
            }
            Self::Cli { cli, keep } => {
                let found = cli.list(launch).await.map_err(|error| Blind {
                    problem: error.to_string(),
                    no_program: error.kind() == std::io::ErrorKind::NotFound,
                })?;
                Ok(match keep {
                    true => Swept {
                        ended: Vec::new(),
                        kept: found,
                    },
                    false => Swept {
                        ended: found,
                        kept: Vec::new(),
                    },
                })
            }
        }
    }

    /// The reason the containers live on when this host dies, if they do.
    pub(in super::super) fn survives_the_host(&self) -> Option<&'static str> {
        match self {
            Self::Proxy { proxy, .. } => proxy.survives_the_host(),
            Self::Cli { .. } => Some("the next start ends the container of this command"),
        }
    }

    /// Tells whether a create is under way that takes long.
    pub(super) fn has_late_create(&self) -> bool {
        match self {
            Self::Proxy { proxy, .. } => proxy.fence().has_late(),
            Self::Cli { .. } => false,
        }
    }

    /// Says that it does not answer, by its name.
    pub(super) fn is_silent(&self) -> String {
        match self {
            Self::Proxy { engine, .. } => format!(
                "the container engine at {} does not answer",
                engine.endpoint()
            ),
            Self::Cli { cli, .. } => format!("{} does not answer", cli.program.display()),
        }
    }
}

async fn look_at(engine: &Engine, proxy: &Proxy, launch: &str) -> Result<Swept, EngineError> {
    let label = format!("{}={}", labels::LAUNCH, launch);
    let mut swept = Swept::default();
    for found in engine.list(&[label]).await? {
        let ends = found.labels.get(labels::ON_END);
        let ends = ends.is_some_and(|value| value == labels::END);
        // Somebody else's, of an image that was made of one of ours.
        let origin = match proxy.has_created(&found.id) {
            true => Origin::Own,
            false => origin::of(engine, &found).await?,
        };
        let remnant = Remnant::container(found.id, found.name);
        match (origin, ends) {
            (Origin::Own, true) => swept.ended.push(remnant),
            (Origin::Own, false) | (Origin::Unknown, _) => swept.kept.push(remnant),
            (Origin::Image, _) => {}
        }
    }
    Ok(swept)
}
