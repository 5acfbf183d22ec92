//! Declares a set, and waits until it is so.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::declared::{Declared, Server};
use super::error::{RefreshError, RefreshErrorKind};
use super::server_manager::{Replacement, ServerManager};
use super::settings;
use super::settled::{ended, failure, started, succeed};
use crate::client::config::ServerConfig;
use crate::fleet::engine::record::Record;
use crate::fleet::engine::{Engine, State};
use crate::fleet::inventory::record::ServerState;
use crate::fleet::outcome::{RefreshReport, ServerOutcome, StartOutcome};
use crate::fleet::restart::Time;
use crate::fleet::slots::effect::SlotId;
use crate::terminate::callback::guarded;
use crate::terminate::report::EndReason;

type Name = Arc<str>;

/// The change that is under way for one name.
#[derive(Default)]
struct Change {
    kept: bool,
    starts: Option<(SlotId, Arc<Record>)>,
    ends: Option<(SlotId, Arc<Record>)>,
    required: bool,
}

impl ServerManager {
    /// Declares the set of servers and waits until all of it is settled: what
    /// is to start is ready or has failed once, what is to end has ended.
    ///
    /// The set is declared when the future is first polled; of concurrent
    /// refreshes the last declaration stands. Calls in flight on servers that
    /// are replaced or removed may complete within the manager's drain time.
    ///
    /// # Errors
    ///
    /// [`RefreshError`]: a name occurs twice, the manager is shut down, or
    /// required servers failed, all of which it lists. In the last case the
    /// declaration stands and the other servers run.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes nothing back: the servers stay declared, and
    /// owned by the manager.
    pub async fn refresh(
        &self,
        servers: impl IntoIterator<Item = ServerConfig>,
    ) -> Result<RefreshReport, RefreshError> {
        refresh(self, servers.into_iter().collect()).await
    }
}

async fn refresh(
    manager: &ServerManager,
    servers: Vec<ServerConfig>,
) -> Result<RefreshReport, RefreshError> {
    let begun = Instant::now();
    let mut wanted = BTreeMap::new();
    for config in servers {
        let name = Name::from(config.name());
        if let Some(twice) = wanted.insert(name, Arc::new(config)) {
            // Found out before anything is touched.
            let server = twice.name().to_owned();
            let kind = RefreshErrorKind::Duplicate { server };
            return Err(RefreshError::new(&manager.owner, kind));
        }
    }
    let changes = declare(manager, wanted)?;
    let mut report = RefreshReport::default();
    let mut required = Vec::new();
    for (server, change) in changes {
        let mut outcome = ServerOutcome {
            server,
            start: None,
            end: None,
        };
        if let Some((slot, record)) = &change.ends {
            outcome.end = Some(ended(manager, *slot, record, begun).await);
        }
        outcome.start = match &change.starts {
            Some((slot, record)) => Some(started(manager, &outcome.server, *slot, record).await),
            None => change.kept.then_some(StartOutcome::Kept),
        };
        if change.required {
            required.extend(failure(&outcome));
        }
        report.servers.push(outcome);
    }
    report.took = begun.elapsed();
    tracing::info!(owner = %manager.owner, "{report}");
    if let Some(tell) = &manager.on_refresh {
        guarded("an observer", &manager.owner, || tell(&report));
    }
    if manager.engine.lock().table.is_closed() {
        return Err(RefreshError::new(
            &manager.owner,
            RefreshErrorKind::ShutDown,
        ));
    }
    if !required.is_empty() {
        let kind = RefreshErrorKind::Required {
            failures: required,
            report: Box::new(report),
        };
        return Err(RefreshError::new(&manager.owner, kind));
    }
    Ok(report)
}

/// Changes what is declared, synchronously and at once.
fn declare(
    manager: &ServerManager,
    wanted: BTreeMap<Name, Arc<ServerConfig>>,
) -> Result<BTreeMap<Name, Change>, RefreshError> {
    let beside = manager.replacement == Replacement::Beside;
    let (changes, successors) = manager.engine.change(|state, now| {
        // Always this order: the engine's lock, then this one.
        let mut declared = manager.lock();
        if state.table.is_closed() {
            return Err(RefreshError::new(
                &manager.owner,
                RefreshErrorKind::ShutDown,
            ));
        }
        let mut set = Set {
            state,
            declared: &mut declared,
            owner: &manager.owner,
            now,
            successors: Vec::new(),
        };
        let mut changes = set.remove_all_but(&wanted);
        for (name, config) in wanted {
            let required = config.required;
            let mut change = match set.declared.servers.get(&name) {
                Some(server) if server.newest().same_process(&config) => set.keep(&name, config),
                Some(_) if beside => set.put_beside(&name, config),
                Some(_) | None => set.put(&name, config),
            };
            change.required = required;
            changes.insert(name, change);
        }
        Ok((changes, set.successors))
    })?;
    for (name, slot) in successors {
        succeed(manager, name, slot);
    }
    Ok(changes)
}

/// The declared set while it is being changed, under both locks.
struct Set<'a> {
    state: &'a mut State<Name>,
    declared: &'a mut Declared,
    owner: &'a Name,
    now: Time,
    /// The slots that are to take over once they are ready.
    successors: Vec<(Name, SlotId)>,
}

impl Set<'_> {
    /// Servers that are not wanted any more end.
    fn remove_all_but(
        &mut self,
        wanted: &BTreeMap<Name, Arc<ServerConfig>>,
    ) -> BTreeMap<Name, Change> {
        let names = self.declared.servers.keys();
        let missing: Vec<_> = names
            .filter(|n| !wanted.contains_key(*n))
            .cloned()
            .collect();
        let mut changes = BTreeMap::new();
        for name in missing {
            let mut change = Change::default();
            for slot in self.declared.slots(&name) {
                change.ends = self.retire(slot).or(change.ends);
            }
            self.declared.servers.remove(&name);
            changes.insert(name, change);
        }
        changes
    }

    /// An unchanged server keeps its process and takes over what governs it. One
    /// that is down is waited for, within its budget: a refresh does not renew it,
    /// or a host that refreshes often would start a broken server for ever.
    fn keep(&mut self, name: &Name, config: Arc<ServerConfig>) -> Change {
        let mut change = Change::default();
        let Some(server) = self.declared.servers.get_mut(name) else {
            return change;
        };
        let beside = server.successor.is_some();
        let slot = match &mut server.successor {
            Some((slot, newest)) => {
                *newest = Arc::clone(&config);
                *slot
            }
            None => {
                server.config = Arc::clone(&config);
                server.slot
            }
        };
        let settings = settings::slot(&config, beside);
        self.state.configure(slot, settings, config);
        self.state.table.end_again(slot);
        if let Some(record) = self.state.record(slot) {
            match self.state.table.slot(slot).map(|slot| slot.state()) {
                Some(ServerState::Ready) => change.kept = true,
                _ => change.starts = Some((slot, record)),
            }
        }
        change
    }

    /// A new server, or one that starts once its predecessor is proven gone.
    fn put(&mut self, name: &Name, config: Arc<ServerConfig>) -> Change {
        let ends = self.declared.current(name).and_then(|(old, _)| {
            let was_live = self.state.is_live(old);
            self.retire(old).filter(|_| was_live)
        });
        let (slot, record) = self.insert(name, &config, false);
        let server = Server {
            config,
            slot,
            successor: None,
        };
        self.declared.servers.insert(Arc::clone(name), server);
        Change {
            ends,
            starts: Some((slot, record)),
            ..Change::default()
        }
    }

    /// A server that starts while its predecessor runs.
    fn put_beside(&mut self, name: &Name, config: Arc<ServerConfig>) -> Change {
        let (slot, record) = self.insert(name, &config, true);
        let server = self.declared.servers.get_mut(name);
        let overtaken = server.and_then(|server| server.successor.replace((slot, config)));
        if let Some((overtaken, _)) = overtaken {
            self.retire(overtaken);
        }
        self.successors.push((Arc::clone(name), slot));
        Change {
            starts: Some((slot, record)),
            ..Change::default()
        }
    }

    fn insert(
        &mut self,
        name: &Name,
        config: &Arc<ServerConfig>,
        beside: bool,
    ) -> (SlotId, Arc<Record>) {
        let record = Record::new(Arc::clone(self.owner), Arc::clone(config));
        let slot = Engine::insert(
            self.state,
            Arc::clone(name),
            settings::slot(config, beside),
            Arc::clone(&record),
            self.now,
        );
        (slot, record)
    }

    fn retire(&mut self, slot: SlotId) -> Option<(SlotId, Arc<Record>)> {
        let record = self.state.record(slot);
        let table = &mut self.state.table;
        table.retire(slot, &EndReason::ConfigChanged, self.now);
        Some((slot, record?))
    }
}
