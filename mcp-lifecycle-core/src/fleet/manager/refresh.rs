use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::settled::{ended, started, succeed};
use crate::client::ServerConfig;
use crate::fleet::engine::State;
use crate::fleet::engine::key::Key;
use crate::fleet::engine::record::Record;
use crate::fleet::restart::Time;
use crate::fleet::slots::effect::SlotId;
use crate::fleet::slots::settings::Demand;
use crate::fleet::{
    FleetOptions, FleetServer, RefreshError, RefreshErrorKind, RefreshReport, Replacement,
    ServerManager, ServerOutcome, ServerState, StartOutcome,
};
use crate::terminate::EndReason;

type Name = Arc<str>;
type Wanted = BTreeMap<Name, (Arc<ServerConfig>, FleetOptions)>;

pub(super) type Declared = BTreeMap<Name, Server>;

#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: Arc<ServerConfig>,
    pub(super) slot: SlotId,
    /// The slot that replaces it once it is ready, with its configuration.
    pub(super) successor: Option<(SlotId, Arc<ServerConfig>)>,
}

impl Server {
    pub(super) fn newest(&self) -> &Arc<ServerConfig> {
        self.successor
            .as_ref()
            .map_or(&self.config, |(_, config)| config)
    }
}

#[derive(Default)]
struct Change {
    kept: bool,
    starts: Option<(SlotId, Arc<Record>)>,
    ends: Option<(SlotId, Arc<Record>)>,
    required: bool,
}

impl ServerManager {
    /// Declares the set of servers and waits until it has settled: starts have succeeded or failed
    /// once, and ends are complete.
    ///
    /// The set is declared when the future is first polled; of concurrent refreshes the last
    /// declaration wins. Dropping the future undoes nothing. Calls in flight on replaced or removed
    /// servers may complete within the manager's drain time.
    ///
    /// # Errors
    ///
    /// [`RefreshError`]: a name occurs twice, the manager is shut down, or required servers failed,
    /// all of which are listed. In the last case the declaration stands and the other servers run.
    pub async fn refresh(
        &self,
        servers: impl IntoIterator<Item = impl Into<FleetServer>>,
    ) -> Result<RefreshReport, RefreshError> {
        refresh(self, servers.into_iter().map(Into::into).collect()).await
    }
}

async fn refresh(
    manager: &ServerManager,
    servers: Vec<FleetServer>,
) -> Result<RefreshReport, RefreshError> {
    let begun = Instant::now();
    let mut wanted = BTreeMap::new();
    for FleetServer { config, options } in servers {
        let name = Name::from(config.name());
        if let Some((twice, _)) = wanted.insert(name, (Arc::new(config), options)) {
            let server = twice.name().to_owned();
            let kind = RefreshErrorKind::Duplicate { server };
            return Err(RefreshError::new(&manager.engine.owner, kind));
        }
    }
    let changes = declare(manager, wanted)?;
    let mut report = RefreshReport::default();
    for (server, change) in changes {
        let mut outcome = ServerOutcome {
            server,
            required: change.required,
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
        report.servers.push(outcome);
    }
    report.took = begun.elapsed();
    tracing::info!(owner = %manager.engine.owner, "{report}");
    let failed = |kind| Err(RefreshError::new(&manager.engine.owner, kind));
    if manager.engine.state.lock().table.is_closed() {
        return failed(RefreshErrorKind::ShutDown);
    }
    if report.failed().any(|server| server.required) {
        return failed(RefreshErrorKind::Required(Box::new(report)));
    }
    Ok(report)
}

fn declare(
    manager: &ServerManager,
    wanted: Wanted,
) -> Result<BTreeMap<Name, Change>, RefreshError> {
    let beside = manager.replacement == Replacement::Beside;
    let (changes, successors) = manager.engine.change(|state, now| {
        // Lock order: the engine's lock, then this one.
        let mut declared = manager.declared.lock();
        if state.table.is_closed() {
            return Err(RefreshError::new(
                &manager.engine.owner,
                RefreshErrorKind::ShutDown,
            ));
        }
        let mut set = Set {
            state,
            declared: &mut declared,
            owner: &manager.engine.owner,
            now,
            successors: Vec::new(),
        };
        let mut changes = set.remove_all_but(&wanted);
        for (name, (config, options)) in wanted {
            let mut change = match set.declared.get(&name) {
                Some(server) if server.newest().same_process(&config) => {
                    set.keep(&name, config, &options)
                }
                Some(_) if beside => set.put_beside(&name, config, &options),
                Some(_) | None => set.put(&name, config, &options),
            };
            change.required = options.required;
            changes.insert(name, change);
        }
        Ok((changes, set.successors))
    })?;
    for (name, slot) in successors {
        succeed(manager, name, slot);
    }
    Ok(changes)
}

struct Set<'a> {
    state: &'a mut State,
    declared: &'a mut Declared,
    owner: &'a Name,
    now: Time,
    successors: Vec<(Name, SlotId)>,
}

impl Set<'_> {
    fn remove_all_but(&mut self, wanted: &Wanted) -> BTreeMap<Name, Change> {
        let (kept, missing): (Declared, Declared) = std::mem::take(self.declared)
            .into_iter()
            .partition(|(name, _)| wanted.contains_key(name));
        *self.declared = kept;
        let removed = missing.into_iter().map(|(name, server)| {
            if let Some((successor, _)) = server.successor {
                self.retire(successor, &EndReason::Undeclared);
            }
            let ends = self.retire(server.slot, &EndReason::Undeclared);
            let change = Change {
                ends,
                ..Change::default()
            };
            (name, change)
        });
        removed.collect()
    }

    /// Keeps an unchanged server's process and updates its settings. A failed server's budget is not
    /// renewed: a host that refreshes often would restart a broken server for ever.
    fn keep(&mut self, name: &Name, config: Arc<ServerConfig>, options: &FleetOptions) -> Change {
        let mut change = Change::default();
        let Some(server) = self.declared.get_mut(name) else {
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
        let settings = options.slot(Demand::Declared, beside);
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

    /// Adds a server, which starts once its predecessor is proven gone.
    fn put(&mut self, name: &Name, config: Arc<ServerConfig>, options: &FleetOptions) -> Change {
        let ends = self.declared.get(name).map(|server| server.slot);
        let ends = ends.and_then(|old| {
            let was_live = self.state.table.is_live(old);
            let end = self.retire(old, &EndReason::ConfigChanged);
            end.filter(|_| was_live)
        });
        let (slot, record) = self.insert(name, &config, options, false);
        let server = Server {
            config,
            slot,
            successor: None,
        };
        self.declared.insert(Arc::clone(name), server);
        Change {
            ends,
            starts: Some((slot, record)),
            ..Change::default()
        }
    }

    /// Adds a server that starts while its predecessor runs.
    fn put_beside(
        &mut self,
        name: &Name,
        config: Arc<ServerConfig>,
        options: &FleetOptions,
    ) -> Change {
        let (slot, record) = self.insert(name, &config, options, true);
        let server = self.declared.get_mut(name);
        let overtaken = server.and_then(|server| server.successor.replace((slot, config)));
        if let Some((overtaken, _)) = overtaken {
            self.retire(overtaken, &EndReason::ConfigChanged);
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
        options: &FleetOptions,
        beside: bool,
    ) -> (SlotId, Arc<Record>) {
        let record = Record::new(Arc::clone(self.owner), Arc::clone(config));
        let key = Key::Declared(Arc::clone(name));
        let settings = options.slot(Demand::Declared, beside);
        let slot = self
            .state
            .insert(key, settings, Arc::clone(&record), self.now);
        (slot, record)
    }

    fn retire(&mut self, slot: SlotId, reason: &EndReason) -> Option<(SlotId, Arc<Record>)> {
        let record = self.state.record(slot);
        self.state.table.retire(slot, reason, self.now);
        Some((slot, record?))
    }
}
