use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::abort::{AbortHandle, Abortable, abortable};
use super::record::Record;
use super::{Engine, Entry};
use crate::client::event::Observed;
use crate::client::start::StartAttempt;
use crate::client::{LifecycleClient, ServerObserver, StartError};
use crate::fleet::slots::effect::{Generation, SlotId};
use crate::lock::Lock;
use crate::terminate::callback::guarded;
use crate::terminate::{EndReason, TerminationPolicy};

pub(super) type Launched = Result<(StartAttempt, LifecycleClient), StartError>;

pub(super) struct Process {
    pub(super) slot: SlotId,
    pub(super) generation: Generation,
    pub(super) record: Arc<Record>,
    pub(super) observed: Observed,
    pub(super) begun: Instant,
    pub(super) again: Notify,
    pub(super) write_off: Notify,
    launch: AbortHandle<Launched>,
    /// Set under the lock of `state`.
    pub(super) client: OnceLock<Arc<LifecycleClient>>,
    pub(super) state: Lock<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) asked: Option<(EndReason, TerminationPolicy)>,
    killed: bool,
    /// `true` since the first end without proof.
    pub(super) unproven: bool,
    /// `true` if its task was lost with its runtime before the proof.
    pub(super) orphaned: bool,
}

impl Process {
    pub(super) fn new(
        engine: &Arc<Engine>,
        slot: SlotId,
        generation: Generation,
        Entry { key, record, .. }: &Entry,
    ) -> (Arc<Self>, Abortable<Launched>) {
        record.inner.lock().outcome = None;
        let observed = Observed {
            server: Arc::clone(&record.server),
            owner: Arc::clone(&record.owner),
            generation,
            observer: Some(Arc::clone(&engine.journal) as Arc<dyn ServerObserver>),
            managed: true,
        };
        let of_client = observed.clone();
        let (engine, key, server) = (Arc::clone(engine), key.clone(), Arc::clone(record));
        let (launch, launching) = abortable(Arc::clone(&record.server), async move {
            // The start-up clock begins when the task first runs.
            let mut client = LifecycleClient::builder((*server.config()).clone());
            if let Some(handlers) = &engine.handlers {
                let make = || handlers(key.scope(), &server.server);
                match guarded("the maker of handlers", &server.server, make) {
                    Some(handler) => client.handler = handler,
                    None => return Err(StartAttempt::new(client).without_handler()),
                }
            }
            client.observed = of_client;
            // A launch that hangs must not keep the engine of a dropped owner.
            drop(engine);
            let mut attempt = StartAttempt::new(client);
            let client = attempt.launch().await?;
            Ok((attempt, client))
        });
        let process = Self {
            slot,
            generation,
            record: Arc::clone(record),
            observed,
            begun: Instant::now(),
            again: Notify::new(),
            write_off: Notify::new(),
            launch,
            client: OnceLock::new(),
            state: Lock::default(),
        };
        (Arc::new(process), launching)
    }

    pub(super) fn asked(&self) -> Option<EndReason> {
        let state = self.state.lock();
        state.asked.as_ref().map(|(reason, _)| reason.clone())
    }

    pub(super) fn launched(&self, client: &Arc<LifecycleClient>) {
        let (asked, killed) = {
            let state = self.state.lock();
            let _ = self.client.set(Arc::clone(client));
            (state.asked.clone(), state.killed)
        };
        if killed {
            client.kill_now();
        }
        if let Some((reason, policy)) = asked {
            client.begin_shutdown(reason, policy);
        }
    }

    /// Requests the end. The first request wins.
    pub(super) fn end(&self, reason: EndReason, policy: TerminationPolicy) {
        let client = {
            let mut state = self.state.lock();
            if state.asked.is_some() {
                return;
            }
            state.asked = Some((reason.clone(), policy.clone()));
            self.client.get()
        };
        match client {
            Some(client) => client.begin_shutdown(reason, policy),
            None => self.launch.abort(),
        }
    }

    pub(super) fn kill(&self) {
        let client = {
            let mut state = self.state.lock();
            state.killed = true;
            self.client.get()
        };
        self.launch.abort();
        if let Some(client) = client {
            client.kill_now();
        }
    }
}
