//! The engine's view of a process: how it is started, ended, killed and adopted.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::abort::{AbortHandle, Abortable, abortable};
use super::record::Record;
use super::{Engine, Key};
use crate::client::error::start::StartError;
use crate::client::event::StartReason;
use crate::client::lifecycle_client::LifecycleClient;
use crate::client::start::StartAttempt;
use crate::fleet::slots::effect::{Generation, SlotId};
use crate::fleet::slots::settings::Demand;
use crate::terminate::callback::guarded;
use crate::terminate::policy::TerminationPolicy;
use crate::terminate::report::EndReason;

pub(super) type Launched = Result<(StartAttempt, LifecycleClient), StartError>;

/// What may be wanted of a process that is not proven gone.
#[derive(Default)]
pub(super) struct Wishes {
    /// Another attempt.
    pub(super) again: Notify,
    /// None, and no proof either.
    pub(super) write_off: Notify,
}

/// The engine's knowledge of a process that lives, or may.
pub(super) struct Run {
    pub(super) launch: AbortHandle<Launched>,
    pub(super) client: Option<Arc<LifecycleClient>>,
    pub(super) wishes: Arc<Wishes>,
    /// `true` from the first end without a proof on.
    pub(super) unproven: bool,
    pub(super) begun: Instant,
    pub(super) asked: Option<(EndReason, TerminationPolicy)>,
    pub(super) killed: bool,
    /// `true` if its task has gone without a proof, with its runtime.
    pub(super) orphaned: bool,
}

/// A process whose task has gone, to be ended by another one.
pub(super) struct Orphan {
    pub(super) slot: SlotId,
    pub(super) generation: Generation,
    pub(super) record: Arc<Record>,
    pub(super) client: Arc<LifecycleClient>,
    pub(super) wishes: Arc<Wishes>,
    pub(super) reason: EndReason,
}

/// A process to be started.
pub(super) struct Start {
    pub(super) slot: SlotId,
    pub(super) generation: Generation,
    pub(super) record: Arc<Record>,
    pub(super) why: StartReason,
    pub(super) launch: Abortable<Launched>,
    pub(super) wishes: Arc<Wishes>,
}

/// A process to be ended.
pub(super) enum End {
    Launch(AbortHandle<Launched>),
    Client(Arc<LifecycleClient>, EndReason, TerminationPolicy),
}

pub(super) fn prepare<K: Key>(
    engine: &Arc<Engine<K>>,
    slot: SlotId,
    generation: Generation,
    record: &Arc<Record>,
    demand: Demand,
    failures: u32,
) -> (Run, Start) {
    record.begins();
    let (engine, server) = (Arc::clone(engine), Arc::clone(record));
    let (launch, launching) = abortable(Arc::clone(&record.server), async move {
        // The start-up clock begins when the task first runs.
        let mut client = LifecycleClient::builder((*server.config()).clone());
        if let Some(handlers) = &engine.handlers {
            let make = || handlers(&server);
            match guarded("the maker of handlers", &server.server, make) {
                Some(handler) => client.handler = handler,
                None => return Err(StartAttempt::new(client).without_handler()),
            }
        }
        client.observed = engine
            .journal
            .observed(&server.server, &server.owner, generation);
        // A launch that hangs must not keep the engine of an owner that has gone.
        drop(engine);
        let mut attempt = StartAttempt::new(client);
        let client = attempt.launch().await?;
        Ok((attempt, client))
    });
    let wishes = Arc::<Wishes>::default();
    let run = Run {
        launch,
        client: None,
        wishes: Arc::clone(&wishes),
        unproven: false,
        begun: Instant::now(),
        asked: None,
        killed: false,
        orphaned: false,
    };
    let why = match (failures, demand) {
        (0, Demand::Declared) => StartReason::Declared,
        (0, Demand::OnDemand) => StartReason::Wanted,
        (failures, _) => StartReason::Restart { failures },
    };
    let record = Arc::clone(record);
    (
        run,
        Start {
            slot,
            generation,
            record,
            why,
            launch: launching,
            wishes,
        },
    )
}

impl Run {
    /// Asks for the end, and returns the order that carries it out: now, or later if the launch is just completing.
    pub(super) fn end(&mut self, reason: EndReason, policy: TerminationPolicy) -> Option<End> {
        if self.asked.is_some() {
            return None;
        }
        self.asked = Some((reason.clone(), policy.clone()));
        Some(match &self.client {
            Some(client) => End::Client(Arc::clone(client), reason, policy),
            None => End::Launch(self.launch.clone()),
        })
    }

    /// Returns the order that ends the process, if its task has gone.
    pub(super) fn adopt(
        &mut self,
        slot: SlotId,
        generation: Generation,
        record: &Arc<Record>,
    ) -> Option<Orphan> {
        let client = self.client.clone().filter(|_| self.orphaned)?;
        self.orphaned = false;
        Some(Orphan {
            slot,
            generation,
            record: Arc::clone(record),
            client,
            wishes: Arc::clone(&self.wishes),
            reason: self.asked().cloned().unwrap_or(EndReason::OwnerDropped),
        })
    }

    /// Returns a function that kills the process, synchronously.
    pub(super) fn kill(&mut self) -> impl FnOnce() + use<> {
        self.killed = true;
        let (launch, client) = (self.launch.clone(), self.client.clone());
        move || {
            launch.abort();
            if let Some(client) = client {
                client.kill_now();
            }
        }
    }

    pub(super) fn client(&self) -> Option<&Arc<LifecycleClient>> {
        self.client.as_ref()
    }

    pub(super) fn asked(&self) -> Option<&EndReason> {
        self.asked.as_ref().map(|(reason, _)| reason)
    }
}

impl End {
    pub(super) fn begin(self) {
        match self {
            Self::Launch(launch) => launch.abort(),
            Self::Client(client, reason, policy) => client.begin_shutdown(reason, policy),
        }
    }
}
