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

/// Ends what dead hosts left at this engine, and at every engine that their
/// leases name.
///
/// One engine that does not answer does not keep the others from being
/// cleaned; its leases stay, so that a later call comes back to it. Only when
/// it is `engine` itself is it an error.
pub(crate) async fn reap(
    engine: Option<&Engine>,
    directory: &Path,
) -> Result<ReapReport, OrphansError> {
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
    let leases = Leases {
        me,
        living: others
            .iter()
            .filter(|other| other.alive)
            .map(|other| other.instance.clone())
            .collect(),
    };

    let mut report = ReapReport::new();
    let mut unclean: BTreeSet<String> = BTreeSet::new();
    if let Some(engine) = engine {
        sweep(engine, &leases, &mut report, &mut unclean)
            .await
            .map_err(|source| OrphansError::List {
                endpoint: engine.endpoint().clone(),
                source,
            })?;
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
        if let Err(error) = sweep(&there, &leases, &mut report, &mut unclean).await {
            warn!(endpoint = url, %error, "an engine that a dead host used does not answer");
            let users = others.iter().filter(|other| other.endpoints.contains(url));
            unclean.extend(users.map(|other| other.instance.clone()));
        }
    }
    for dead in others.into_iter().filter(|other| !other.alive) {
        if !unclean.contains(&dead.instance) {
            dead.forget();
        }
    }
    Ok(report)
}

async fn sweep(
    engine: &Engine,
    leases: &Leases,
    report: &mut ReapReport,
    unclean: &mut BTreeSet<String>,
) -> Result<(), EngineError> {
    let ours = engine.list(&[labels::INSTANCE.to_owned()]).await?;
    let local = engine.endpoint().local_socket().is_some();
    let mut orphans = Vec::new();
    for found in ours {
        match judge(&found.labels, leases, local) {
            Verdict::Dead => orphans.push(found),
            Verdict::Spared(_) => report.spared.push(remnant(&found)),
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
            report.ended.push(remnant);
        } else {
            unclean.extend(found.labels.get(labels::INSTANCE).cloned());
            report.failed.push(remnant);
        }
    }
    Ok(())
}

fn remnant(found: &Found) -> Remnant {
    Remnant::container(&found.id, &found.name)
}
