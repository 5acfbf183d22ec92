//! Containers of dead hosts.

#[cfg(test)]
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
use crate::engine::{Engine, EngineError, Found, Result, State};
use crate::labels::{self, Host, Origin};
use crate::ledger::{self, ForeignLedger, ForeignLedgers, Home, Place};
use crate::machine;
use verdict::{Ledgers, Me, Verdict, Why, judge};

/// Time limit of one removal, after which it is reported as failed.
const REMOVAL_LIMIT: Duration = Duration::from_secs(15);

pub(crate) const PARALLEL: usize = 8;

/// Time limit of the first answer of an engine that may be gone: others are waiting for theirs.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, Error)]
pub(crate) enum OrphansError {
    #[error("the ledgers of this user's hosts cannot be read")]
    Ledgers(#[source] io::Error),
    #[error("the containers at {endpoint} cannot be listed")]
    List {
        endpoint: Endpoint,
        #[source]
        source: Box<EngineError>,
    },
    #[error("the endpoint that a dead host noted cannot be used")]
    Endpoint(#[from] EndpointError),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum First<'a> {
    /// The launcher's own, which must respond.
    Own(&'a Engine),
    /// The default one, if any. Its failure must not affect those that ledgers name.
    Default(Option<&'a Engine>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    End,
    /// Only report them as ended.
    Name,
}

/// Ends containers of dead hosts at this engine and at every engine that their ledgers name. An
/// engine that does not respond is reported as unknown, and its ledgers are kept; it is an error only
/// if it is the caller's [own](First::Own).
pub(crate) async fn reap(
    first: First<'_>,
    place: &Place,
    aim: Aim,
) -> Result<ReapReport, OrphansError> {
    let ForeignLedgers {
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
        ledgers: Ledgers::new(Me::new(domains), &others),
        report,
        unclean: BTreeSet::new(),
    };
    let (engine, has_to_answer) = match first {
        First::Own(engine) => (Some(engine), true),
        First::Default(engine) => (engine, false),
    };
    if let Some(engine) = engine {
        let limit = match has_to_answer {
            true => Duration::MAX,
            false => HELLO_LIMIT,
        };
        match search.sweep(engine, limit).await {
            Err(error) if has_to_answer => return Err(error),
            Err(error) => {
                let may_have_some = may_have_containers(engine, &error);
                search.missed(&engine.endpoint.noted(), &others, may_have_some, error);
            }
            Ok(()) => {}
        }
    }
    let here = engine.map(|engine| engine.endpoint.noted());
    let elsewhere: BTreeSet<&String> = others.iter().flat_map(|other| &other.endpoints).collect();
    for url in elsewhere
        .into_iter()
        .filter(|url| Some(*url) != here.as_ref())
    {
        let swept = match Endpoint::from_note(url) {
            Ok(endpoint) => search.sweep(&Engine::new(endpoint), HELLO_LIMIT).await,
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

/// Forgets the ledgers of dead hosts that name only this engine. Returns their number.
pub(crate) fn forget(url: &str, place: &Place) -> usize {
    let others = place.records().others.into_iter();
    let is_only = |other: &ForeignLedger| {
        !other.endpoints.is_empty() && other.endpoints.iter().all(|it| it == url)
    };
    let theirs = others.filter(|other| !other.alive && is_only(other));
    theirs.map(ForeignLedger::forget).count()
}

struct Search<'a> {
    homes: &'a [Arc<Home>],
    aim: Aim,
    ledgers: Ledgers,
    report: ReapReport,
    /// The instances that have or may have remnants.
    unclean: BTreeSet<String>,
}

impl Search<'_> {
    /// Records that an engine could not be searched, and keeps the ledgers of its users. Reported if
    /// a dead host has used it, or if it `may_have` containers of a host without a ledger.
    fn missed(&mut self, url: &str, others: &[ForeignLedger], may_have: bool, error: OrphansError) {
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

    /// Keeps the ledger of a container's host, since the container stays.
    fn stays(&mut self, found: &Found) {
        let hosts = labels::hosts(&found.labels).into_iter();
        self.unclean
            .extend(hosts.map(|host| host.instance.to_owned()));
    }

    fn unknown(&mut self, found: &Found, why: &str) {
        self.stays(found);
        let unknown = UnknownRemnant::new(remnant(found), why);
        self.report.unknown.push(unknown);
    }

    /// Judges a container by each of its hosts. It is an orphan if any of them is dead.
    async fn is_orphan(&mut self, engine: &Engine, found: &Found, ledgers: &Ledgers) -> bool {
        let rests = engine.endpoint.local_socket().is_some() && !found.runs;
        let (mut is_spared, mut stays) = (false, false);
        for host in labels::hosts(&found.labels) {
            match judge(&host, ledgers, rests, machine::is_alive) {
                Verdict::Dead => match whose(engine, found, &host).await {
                    // A daemon that was killed may list a container that does not exist.
                    Ok(None) => return false,
                    Ok(Some(Origin::Own)) => return true,
                    // A third party's, from an image made of one of our containers.
                    Ok(Some(Origin::Image)) => is_spared = true,
                    Ok(Some(Origin::Unknown)) => self.unknown(
                        found,
                        "its image is gone, so that the origin of its labels is unknown",
                    ),
                    Err(error) => self.unknown(found, &ErrorChain(&error).to_string()),
                },
                Verdict::Spared(why) => {
                    is_spared = true;
                    stays |= why != Why::Kept;
                }
            }
        }
        if stays {
            self.stays(found);
        }
        if is_spared {
            self.report.spared.push(remnant(found));
        }
        false
    }

    async fn sweep(&mut self, engine: &Engine, hello: Duration) -> Result<(), OrphansError> {
        let ours = async {
            engine.hello(hello).await?;
            engine.list(&[labels::NAME.to_owned()]).await
        };
        let ours = ours.await.map_err(|source| OrphansError::List {
            endpoint: engine.endpoint.clone(),
            source: Box::new(source),
        })?;
        let now = ledger::instances(self.homes).map_err(OrphansError::Ledgers)?;
        let ledgers = self.ledgers.after_a_list(now);
        let mut orphans = Vec::new();
        for found in ours {
            if self.is_orphan(engine, &found, &ledgers).await {
                orphans.push(found);
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

/// Returns whether an engine without a ledger that could not be searched may have containers of this
/// user's hosts: not if it does not exist or this user may not access it.
fn may_have_containers(engine: &Engine, error: &OrphansError) -> bool {
    if let OrphansError::List { source, .. } = error
        && let EngineError::NotAllowed { .. } = **source
    {
        return false;
    }
    let socket = engine.endpoint.local_socket();
    let is_missing = |path: &Path| path.try_exists().is_ok_and(|is_there| !is_there);
    !socket.is_some_and(is_missing)
}

pub(crate) fn engine_at(url: &str) -> Remnant {
    let kind = RemnantKind::Other("engine".into());
    Remnant::new(kind, url, "containers of hosts that are gone")
}

/// Returns the origin of a listed container's labels; `None` if it is gone.
async fn whose(engine: &Engine, found: &Found, host: &Host<'_>) -> Result<Option<Origin>> {
    match engine.state(&found.id).await? {
        State::Absent => Ok(None),
        _ => labels::origin_of(engine, found, host).await.map(Some),
    }
}

fn remnant(found: &Found) -> Remnant {
    Remnant::container(&found.id, &found.name)
}
