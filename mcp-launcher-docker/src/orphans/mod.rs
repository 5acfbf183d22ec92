//! Containers of dead hosts.

mod verdict;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use mcp_lifecycle_core::{ReapReport, Remnant};
use thiserror::Error;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::container::remove_until_absent;
use crate::endpoint::Endpoint;
use crate::engine::{Engine, EngineError, Found};
use crate::labels;
use crate::lease::{self, Owner};
use verdict::{Leases, Verdict, judge};

/// How many removals the daemon gets at a time.
pub(crate) const PARALLEL: usize = 8;

/// How long one removal may take before it is reported as failed.
const REMOVAL_LIMIT: Duration = Duration::from_secs(15);

/// The search failed.
#[derive(Debug, Error)]
pub(crate) enum OrphansError {
    #[error("the leases in {directory} cannot be read")]
    Leases {
        directory: String,
        #[source]
        source: io::Error,
    },
    #[error("the containers at {endpoint} cannot be listed")]
    List {
        endpoint: Endpoint,
        #[source]
        source: EngineError,
    },
}

/// The engine to begin with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum First<'a> {
    /// The launcher's own, which has to answer.
    Own(&'a Engine),
    /// The one that happens to be the default here. There may be none, and
    /// those that leases name are not to suffer for it.
    Default(Option<&'a Engine>),
}

/// Ends what dead hosts left at this engine, and at every engine that their
/// leases name.
///
/// One engine that does not answer does not keep the others from being
/// cleaned; its leases stay, so that a later call comes back to it. Only when
/// it is the caller's [own](First::Own) is it an error.
pub(crate) async fn reap(first: First<'_>, directory: &Path) -> Result<ReapReport, OrphansError> {
    let unreadable = |source| OrphansError::Leases {
        directory: directory.display().to_string(),
        source,
    };
    if !directory.exists() {
        // Nobody here ever launched anything.
        return Ok(ReapReport::new());
    }
    let me = Owner::in_directory(directory).map_err(unreadable)?;
    let others = lease::others(directory).map_err(unreadable)?;
    let mut search = Search {
        directory,
        leases: Leases::new(me, &others),
        report: ReapReport::new(),
        unclean: BTreeSet::new(),
    };
    let engine = match first {
        First::Own(engine) => Some(engine),
        First::Default(engine) => engine,
    };
    if let Some(engine) = engine {
        search.sweep(engine).await?;
    }
    let here = engine.map(|engine| engine.endpoint().to_string());
    let elsewhere: BTreeSet<&String> = others.iter().flat_map(|other| &other.endpoints).collect();
    for url in elsewhere
        .into_iter()
        .filter(|url| Some(*url) != here.as_ref())
    {
        let there = match Endpoint::from_url(url) {
            Ok(endpoint) => Engine::new(endpoint),
            Err(_) => continue,
        };
        if let Err(error) = search.sweep(&there).await {
            warn!(endpoint = url, %error, "an engine that a dead host used does not answer");
            let users = others.iter().filter(|other| other.endpoints.contains(url));
            let users = users.map(|other| other.instance.clone());
            search.unclean.extend(users);
        }
    }
    for dead in others.into_iter().filter(|other| !other.alive) {
        if !search.unclean.contains(&dead.instance) {
            dead.forget();
        }
    }
    Ok(search.report)
}

/// One search, over one engine after another.
struct Search<'a> {
    directory: &'a Path,
    leases: Leases,
    report: ReapReport,
    /// The instances that something is left of, or may be.
    unclean: BTreeSet<String>,
}

impl Search<'_> {
    async fn sweep(&mut self, engine: &Engine) -> Result<(), OrphansError> {
        let ours = engine.list(&[labels::INSTANCE.to_owned()]).await;
        let ours = ours.map_err(|source| OrphansError::List {
            endpoint: engine.endpoint().clone(),
            source,
        })?;
        let now = lease::instances(self.directory).map_err(|source| OrphansError::Leases {
            directory: self.directory.display().to_string(),
            source,
        })?;
        let leases = self.leases.after_a_list(now);
        let local = engine.endpoint().local_socket().is_some();
        let mut orphans = Vec::new();
        for found in ours {
            match judge(&found.labels, &leases, local) {
                Verdict::Dead => orphans.push(found),
                Verdict::Spared(_) => self.report.spared.push(remnant(&found)),
            }
        }
        let mut ended = futures_util::stream::iter(orphans)
            .map(|found| async move {
                let removal = remove_until_absent(engine, &found.id, |_| {});
                let removed = timeout(REMOVAL_LIMIT, removal).await.is_ok();
                (found, removed)
            })
            .buffer_unordered(PARALLEL);
        while let Some((found, removed)) = ended.next().await {
            let remnant = remnant(&found);
            if removed {
                info!(container = found.id, name = found.name, "orphan ended");
                self.report.ended.push(remnant);
            } else {
                self.unclean
                    .extend(found.labels.get(labels::INSTANCE).cloned());
                self.report.failed.push(remnant);
            }
        }
        Ok(())
    }
}

fn remnant(found: &Found) -> Remnant {
    Remnant::container(&found.id, &found.name)
}
