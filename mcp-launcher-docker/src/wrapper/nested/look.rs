use std::time::Duration;

use futures_util::{StreamExt, stream};
use mcp_lifecycle_core::launch::{ErrorChain, Remnant};
use tokio::time::timeout;

use super::Swept;
use crate::engine::{Engine, Found, Result, State};
use crate::labels::{self, Mark, Origin};
use crate::orphans::PARALLEL;
use crate::wrapper::cli::Cli;
use crate::wrapper::proxy::Proxy;

#[derive(Debug)]
pub(in super::super) enum Means {
    Proxy(Proxy),
    Cli { cli: Cli, keep: bool },
}

#[derive(Debug)]
pub(super) struct Blind {
    pub(super) problem: String,
    pub(super) no_program: bool,
}

impl Means {
    /// Returns whether no creation is in progress, within this time.
    pub(super) async fn settled(&self, patience: Duration) -> bool {
        match self {
            Self::Proxy(proxy) => timeout(patience, proxy.fence().empty()).await.is_ok(),
            Self::Cli { .. } => true,
        }
    }

    /// Returns whether there can be no container, although a search failed.
    pub(super) fn has_nothing(&self, blind: &Blind, launched: bool) -> bool {
        match self {
            Self::Proxy(proxy) => !proxy.fence().is_used(),
            // A missing program cannot have run.
            Self::Cli { .. } => blind.no_program && !launched,
        }
    }

    pub(super) async fn look(&self, mark: &Mark) -> Result<Swept, Blind> {
        match self {
            // Only the proxy sets the label, so the engine need not be asked if it was never used.
            Self::Proxy(proxy) if !proxy.fence().is_used() => Ok(Swept::default()),
            Self::Proxy(proxy) => look_at(proxy, mark).await.map_err(|error| Blind {
                problem: ErrorChain(&error).to_string(),
                no_program: false,
            }),
            Self::Cli { cli, keep } => {
                let found = cli.list(&mark.filter()).await.map_err(|error| Blind {
                    problem: error.to_string(),
                    no_program: error.kind() == std::io::ErrorKind::NotFound,
                })?;
                let (ended, kept) = match keep {
                    true => (Vec::new(), found),
                    false => (found, Vec::new()),
                };
                Ok(Swept { ended, kept })
            }
        }
    }

    /// Returns why the containers survive this host's death, if they do.
    pub(in super::super) fn survives_the_host(&self) -> Option<&'static str> {
        match self {
            Self::Proxy(proxy) => proxy.survives_the_host(),
            Self::Cli { .. } => Some("the next start ends the container of this command"),
        }
    }

    pub(super) fn has_late_create(&self) -> bool {
        match self {
            Self::Proxy(proxy) => proxy.fence().has_late(),
            Self::Cli { .. } => false,
        }
    }

    pub(super) fn is_silent(&self) -> String {
        match self {
            Self::Proxy(proxy) => format!(
                "the container engine at {} does not answer",
                proxy.engine().endpoint
            ),
            Self::Cli { cli, .. } => format!("{} does not answer", cli.program.display()),
        }
    }
}

/// Searches by label, and by the ID of each container that the engine created for us, since a
/// gateway may have removed the labels. A container that is not listed is gone only by its own 404.
async fn look_at(proxy: &Proxy, mark: &Mark) -> Result<Swept> {
    let engine = proxy.engine();
    let mut swept = Swept::default();
    let mut created = proxy.created();
    for found in engine.list(&[mark.filter()]).await? {
        let ends = mark.ends(&found.labels);
        // A third party's, from an image made of one of our containers.
        let origin = match created.remove(&found.id) {
            Some(_) => Origin::Own,
            None => origin_of(engine, &found, mark).await?,
        };
        let remnant = Remnant::container(found.id, found.name);
        match (origin, ends) {
            (Origin::Own, true) => swept.ended.push(remnant),
            (Origin::Own, false) | (Origin::Unknown, _) => swept.kept.push(remnant),
            (Origin::Image, _) => {}
        }
    }
    let mut unlisted = stream::iter(created)
        .map(|(id, ends)| async move { (engine.state(&id).await, id, ends) })
        .buffer_unordered(PARALLEL);
    while let Some((state, id, ends)) = unlisted.next().await {
        let list = match state? {
            State::Absent => {
                proxy.forget(&id);
                continue;
            }
            _ if ends => &mut swept.ended,
            _ => &mut swept.kept,
        };
        list.push(Remnant::container(id, ""));
    }
    Ok(swept)
}

async fn origin_of(engine: &Engine, found: &Found, mark: &Mark) -> Result<Origin> {
    let hosts = labels::hosts(&found.labels);
    match hosts.iter().find(|host| host.instance == mark.instance) {
        Some(host) => labels::origin_of(engine, found, host).await,
        None => Ok(Origin::Unknown),
    }
}
