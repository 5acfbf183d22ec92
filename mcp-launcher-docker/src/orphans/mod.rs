//! Containers of dead hosts.

#[cfg(all(test, unix))]
mod tests;
mod verdict;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use mcp_lifecycle_core::launch::{ErrorChain, ReapReport, Remnant, RemnantKind, UnknownRemnant};
use thiserror::Error;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::container::remove_until_absent;
use crate::endpoint::{Endpoint, EndpointError};
use crate::engine::{Engine, EngineError, Found, State};
use crate::labels;
use crate::lease::{self, Home, Other, Place, Records};
use crate::machine;
use crate::origin::{self, Origin};
use verdict::{Leases, Me, Verdict, Why, judge};

/// How many removals the daemon gets at a time.
pub(crate) const PARALLEL: usize = 8;

/// The longest time one removal may take before it is reported as failed.
const REMOVAL_LIMIT: Duration = Duration::from_secs(15);

/// The search failed.
#[derive(Debug, Error)]
pub(crate) enum OrphansError {
    #[error("the leases of this user's hosts cannot be read")]
    Leases(#[source] io::Error),
    #[error("the containers at {endpoint} cannot be listed")]
    List {
        endpoint: Endpoint,
        #[source]
        source: Box<EngineError>,
    },
    #[error("the endpoint that a dead host noted cannot be used")]
    Endpoint(#[from] EndpointError),
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

/// What is done with a container whose host is proven dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    /// It is ended.
    End,
    /// It is reported as ended, and stays, with all that is on record.
    Name,
}

/// Ends what dead hosts left at this engine, and at every engine that their
/// leases name.
///
/// What is on record and cannot be read is reported, and keeps nothing else from being
/// ended. One engine that does not answer does not keep the others from being
/// cleaned; it is reported as unknown, and its leases stay, so that a later call comes back to it. Only when
/// it is the caller's [own](First::Own) is it an error.
pub(crate) async fn reap(
    first: First<'_>,
    place: &Place,
    aim: Aim,
) -> Result<ReapReport, OrphansError> {
    // None at all where nobody launched anything, or none since the directories
    // were cleared, as those of the runtime are by a boot.
    let Records {
        homes,
        domains,
        others,
        unreadable,
    } = place.records();
    let mut report = ReapReport::new();
    for (path, error) in unreadable {
        let record = Remnant::record(path.to_string_lossy(), "what hosts have on record there");
        let unknown = UnknownRemnant::new(record, error.to_string());
        report.unknown.push(unknown);
    }
    let mut search = Search {
        homes: &homes,
        aim,
        leases: Leases::new(Me::new(domains), &others),
        report,
        unclean: BTreeSet::new(),
    };
    let (engine, has_to_answer) = match first {
        First::Own(engine) => (Some(engine), true),
        First::Default(engine) => (engine, false),
    };
    if let Some(engine) = engine {
        match search.sweep(engine).await {
            Err(error) if has_to_answer => return Err(error),
            Err(error) => {
                let may_have_some = may_have_containers(engine, &error);
                search.missed(&engine.endpoint().noted(), &others, may_have_some, error);
            }
            Ok(()) => {}
        }
    }
    let here = engine.map(|engine| engine.endpoint().noted());
    let elsewhere: BTreeSet<&String> = others.iter().flat_map(|other| &other.endpoints).collect();
    for url in elsewhere
        .into_iter()
        .filter(|url| Some(*url) != here.as_ref())
    {
        let swept = match Endpoint::from_note(url) {
            Ok(endpoint) => search.sweep(&Engine::new(endpoint)).await,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = swept {
            search.missed(url, &others, false, error);
        }
    }
    for dead in others.into_iter().filter(|other| !other.alive) {
        if aim == Aim::End && !search.unclean.contains(&dead.instance) {
            dead.forget();
        }
    }
    Ok(search.report)
}

/// One search, over one engine after another.
struct Search<'a> {
    homes: &'a [Arc<Home>],
    aim: Aim,
    leases: Leases,
    report: ReapReport,
    /// The instances that something is left of, or may be.
    unclean: BTreeSet<String>,
}

impl Search<'_> {
    /// An engine could not be searched: the leases of those who used it stay. It is reported
    /// where a dead host has used it, or where it `may_have` containers of one that is not on record.
    fn missed(&mut self, url: &str, others: &[Other], may_have: bool, error: OrphansError) {
        let error = ErrorChain(&error);
        warn!(endpoint = url, %error, "an engine that a dead host may have used cannot be searched");
        let users = others
            .iter()
            .filter(|other| other.endpoints.iter().any(|used| used == url));
        let was_used = users.clone().any(|other| !other.alive);
        self.unclean
            .extend(users.map(|other| other.instance.clone()));
        if was_used || may_have {
            let unknown = UnknownRemnant::new(engine_at(url), error.to_string());
            self.report.unknown.push(unknown);
        }
    }

    /// It is not ended here: nor is its host's lease forgotten.
    fn stays(&mut self, found: &Found) {
        self.unclean
            .extend(found.labels.get(labels::INSTANCE).cloned());
    }

    /// Nobody can tell whose it is: it stays.
    fn unknown(&mut self, found: &Found, why: &str) {
        self.stays(found);
        let unknown = UnknownRemnant::new(remnant(found), why);
        self.report.unknown.push(unknown);
    }

    async fn sweep(&mut self, engine: &Engine) -> Result<(), OrphansError> {
        let ours = engine.list(&[labels::INSTANCE.to_owned()]).await;
        let ours = ours.map_err(|source| OrphansError::List {
            endpoint: engine.endpoint().clone(),
            source: Box::new(source),
        })?;
        let now = lease::instances(self.homes).map_err(OrphansError::Leases)?;
        let leases = self.leases.after_a_list(now);
        let local = engine.endpoint().local_socket().is_some();
        let mut orphans = Vec::new();
        for found in ours {
            match judge(&found.labels, &leases, local && !found.runs, machine::is_alive) {
                Verdict::Dead => match whose(engine, &found).await {
                    // A daemon that was killed may list it for as long as it runs.
                    Ok(None) => {}
                    Ok(Some(Origin::Own)) => orphans.push(found),
                    // Somebody else's, of an image that was made of one of ours.
                    Ok(Some(Origin::Image)) => self.report.spared.push(remnant(&found)),
                    Ok(Some(Origin::Unknown)) => self.unknown(&found, "its image is gone, so that nobody can tell whether it has its labels from it"),
                    Err(error) => self.unknown(&found, &ErrorChain(&error).to_string()),
                },
                Verdict::Spared(why) => {
                    if why != Why::Kept {
                        self.stays(&found);
                    }
                    self.report.spared.push(remnant(&found));
                }
            }
        }
        if self.aim == Aim::Name {
            self.report.ended.extend(orphans.iter().map(remnant));
            return Ok(());
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
                self.stays(&found);
                self.report.failed.push(remnant);
            }
        }
        Ok(())
    }
}

/// Tells whether an engine that no lease names, and that could not be searched, may have
/// containers of this user's hosts: not if it is not there, or if this user may not use it.
fn may_have_containers(engine: &Engine, error: &OrphansError) -> bool {
    if let OrphansError::List { source, .. } = error
        && let EngineError::NotAllowed { .. } = **source
    {
        return false;
    }
    let socket = engine.endpoint().local_socket();
    let is_missing = |path: &Path| path.try_exists().is_ok_and(|is_there| !is_there);
    !socket.is_some_and(is_missing)
}

/// An engine as something that could not be looked at.
pub(crate) fn engine_at(url: &str) -> Remnant {
    let kind = RemnantKind::Other("engine".into());
    Remnant::new(kind, url, "containers of hosts that are gone")
}

/// Where a container that was listed has its labels from; `None` where it is not there.
async fn whose(engine: &Engine, found: &Found) -> Result<Option<Origin>, EngineError> {
    match engine.state(&found.id).await? {
        State::Absent => Ok(None),
        _ => origin::of(engine, found).await.map(Some),
    }
}

fn remnant(found: &Found) -> Remnant {
    Remnant::container(&found.id, &found.name)
}
