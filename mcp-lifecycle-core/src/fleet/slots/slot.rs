//! [`Slot`]: the life of one server under one key.

mod tick;
mod wait;

use std::collections::VecDeque;

use self::tick::end_again_after;
use self::wait::Waiter;
use super::effect::{Effect, End, Generation, Liveness, Refusal, SlotId};
use super::settings::{Demand, SlotSettings};
use crate::fleet::inventory::record::ServerState;
use crate::fleet::restart::{Restarts, Time, Verdict};
use crate::terminate::report::EndReason;

/// Where a slot is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing runs.
    Vacant,
    /// A process is being started.
    Starting,
    /// The server can be leased.
    Ready { since: Time },
    /// The server is being ended, or has died and the rest of it is being ended.
    Ending,
    /// The server is not proven gone; to be tried again at this time.
    Uncertain { retry_at: Time },
    /// The server failed, and may start again at this time.
    Backoff { until: Time },
    /// The server failed too often.
    Exhausted { until: Option<Time> },
}

/// One slot. Its methods are what can happen to it.
#[derive(Debug)]
pub(crate) struct Slot<G> {
    pub(in crate::fleet::slots) id: SlotId,
    pub(in crate::fleet::slots) settings: SlotSettings,
    phase: Phase,
    generation: Generation,
    restarts: Restarts,
    retired: Option<EndReason>,
    leases: usize,
    waiters: VecDeque<Waiter>,
    gauge: Option<G>,
    idle_since: Time,
    last_used: Time,
    /// The time when the process of this generation became ready, if it did.
    was_ready: Option<Time>,
    died_at: Time,
    unproven: u32,
    /// `true` if it stands in the queue of starts.
    pub(in crate::fleet::slots) queued: bool,
}

impl<G: Liveness> Slot<G> {
    pub(in crate::fleet::slots) fn new(id: SlotId, settings: SlotSettings, now: Time) -> Self {
        Self {
            id,
            restarts: Restarts::new(settings.restart.clone()),
            settings,
            phase: Phase::Vacant,
            generation: 0,
            retired: None,
            leases: 0,
            waiters: VecDeque::new(),
            gauge: None,
            idle_since: now,
            last_used: now,
            was_ready: None,
            died_at: now,
            unproven: 0,
            queued: false,
        }
    }

    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(crate) fn id(&self) -> SlotId {
        self.id
    }

    pub(crate) fn demand(&self) -> Demand {
        self.settings.demand
    }

    /// The phase without its times.
    pub(crate) fn state(&self) -> ServerState {
        match self.phase {
            Phase::Vacant => ServerState::Queued,
            Phase::Starting => ServerState::Starting,
            Phase::Ready { .. } => ServerState::Ready,
            Phase::Ending => ServerState::Ending,
            Phase::Uncertain { .. } => ServerState::Unproven,
            Phase::Backoff { .. } => ServerState::Backoff,
            Phase::Exhausted { .. } => ServerState::Exhausted,
        }
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    pub(crate) fn leases(&self) -> usize {
        self.leases
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn failures(&self) -> u32 {
        self.restarts.failures()
    }

    pub(crate) fn last_used(&self) -> Time {
        self.last_used
    }

    pub(crate) fn retired(&self) -> Option<&EndReason> {
        self.retired.as_ref()
    }

    pub(crate) fn gauge(&self) -> Option<&G> {
        self.gauge.as_ref()
    }

    /// Returns whether a process exists or may exist.
    pub(crate) fn is_live(&self) -> bool {
        use Phase::{Ending, Ready, Starting, Uncertain};
        matches!(
            self.phase,
            Starting | Ready { .. } | Ending | Uncertain { .. }
        )
    }

    pub(in crate::fleet::slots) fn wants_start(&self) -> bool {
        self.phase == Phase::Vacant
            && self.retired.is_none()
            && (self.settings.demand == Demand::Declared || !self.waiters.is_empty())
    }

    /// Returns whether it runs and nobody uses it.
    pub(in crate::fleet::slots) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. })
            && self.settings.demand == Demand::OnDemand
            && self.leases == 0
            && self.waiters.is_empty()
            && !self.gauge.as_ref().is_some_and(Liveness::is_busy)
    }

    /// Returns whether nothing would be lost by forgetting it.
    pub(in crate::fleet::slots) fn is_forgettable(&self, now: Time) -> bool {
        if self.is_live() || !self.waiters.is_empty() {
            return false;
        }
        let stale = || self.restarts.forget_at().is_some_and(|at| at <= now);
        self.retired.is_some() || (self.settings.demand == Demand::OnDemand && stale())
    }

    /// Grants a lease now, if that is possible.
    pub(in crate::fleet::slots) fn lease(&mut self, now: Time) -> Option<Generation> {
        if !matches!(self.phase, Phase::Ready { .. }) {
            return None;
        }
        if self.gauge.as_ref().is_none_or(Liveness::is_dead) {
            self.died(self.generation, now);
            return None;
        }
        if self.settings.exclusive && self.leases > 0 {
            return None;
        }
        self.leases += 1;
        self.last_used = now;
        Some(self.generation)
    }

    /// A lease came back. One of an earlier process changes nothing.
    pub(in crate::fleet::slots) fn release(
        &mut self,
        generation: Generation,
        now: Time,
        out: &mut Vec<Effect>,
    ) {
        if generation != self.generation {
            return;
        }
        self.leases = self.leases.saturating_sub(1);
        if self.leases == 0 {
            self.idle_since = now;
        }
        self.grant(now, out);
    }

    /// The order to start is given.
    pub(in crate::fleet::slots) fn start(&mut self, out: &mut Vec<Effect>) {
        self.generation += 1;
        self.leases = 0;
        self.was_ready = None;
        self.unproven = 0;
        self.phase = Phase::Starting;
        out.push(Effect::Start {
            slot: self.id,
            generation: self.generation,
        });
    }

    pub(in crate::fleet::slots) fn started(
        &mut self,
        generation: Generation,
        gauge: G,
        now: Time,
        out: &mut Vec<Effect>,
    ) {
        if generation != self.generation || self.phase != Phase::Starting {
            return;
        }
        self.gauge = Some(gauge);
        self.was_ready = Some(now);
        self.idle_since = now;
        self.phase = Phase::Ready { since: now };
        self.grant(now, out);
    }

    /// The process has died; what is left of it is being ended.
    pub(in crate::fleet::slots) fn died(&mut self, generation: Generation, now: Time) {
        if generation == self.generation && matches!(self.phase, Phase::Ready { .. }) {
            self.died_at = now;
            self.phase = Phase::Ending;
        }
    }

    /// The start failed, or the process has ended: proven, or not.
    pub(in crate::fleet::slots) fn ended(&mut self, end: End, now: Time, out: &mut Vec<Effect>) {
        let End {
            generation,
            proven,
            entropy,
        } = end;
        if generation != self.generation || !self.is_live() {
            return;
        }
        if self.phase == Phase::Starting {
            self.refuse_all(&Refusal::StartFailed, out);
        }
        self.died(generation, now);
        if !proven {
            let wait = end_again_after(self.unproven);
            self.unproven += 1;
            self.phase = Phase::Uncertain {
                retry_at: now.saturating_add(wait),
            };
            return self.refuse_all(&Refusal::Uncertain, out);
        }
        self.gauge = None;
        self.phase = Phase::Vacant;
        if self.retired.is_some() {
            return;
        }
        let uptime = self
            .was_ready
            .map(|since| self.died_at.saturating_sub(since));
        self.phase = match self.restarts.failed(uptime, now, entropy) {
            Verdict::RetryAt(until) => Phase::Backoff { until },
            Verdict::Exhausted(until) => Phase::Exhausted { until },
        };
        let refused_before: Vec<_> = self
            .waiters
            .iter()
            .filter_map(|w| Some((w.id, self.refused_before(w.deadline).err()?)))
            .collect();
        for (waiter, refusal) in refused_before {
            self.cancel(waiter, now);
            out.push(Effect::Refuse { waiter, refusal });
        }
    }

    /// Never starts again; what runs is ended. The first reason stays.
    pub(in crate::fleet::slots) fn retire(&mut self, reason: &EndReason, out: &mut Vec<Effect>) {
        if self.retired.is_some() {
            return;
        }
        self.retired = Some(reason.clone());
        self.refuse_all(&Refusal::Retired(reason.clone()), out);
        match self.phase {
            Phase::Starting | Phase::Ready { .. } => {
                self.phase = Phase::Ending;
                out.push(Effect::End {
                    slot: self.id,
                    reason: reason.clone(),
                });
            }
            Phase::Ending => {}
            // Somebody wants its place.
            Phase::Uncertain { .. } => self.end_again(out),
            Phase::Vacant | Phase::Backoff { .. } | Phase::Exhausted { .. } => {
                self.phase = Phase::Vacant;
            }
        }
    }

    /// Starts a new series of failures, by hand.
    pub(in crate::fleet::slots) fn reset(&mut self) {
        self.restarts.reset();
        if matches!(self.phase, Phase::Backoff { .. } | Phase::Exhausted { .. }) {
            self.phase = Phase::Vacant;
        }
    }

    /// Takes over settings that need no other process.
    pub(in crate::fleet::slots) fn configure(&mut self, settings: SlotSettings) {
        self.restarts.set_policy(settings.restart.clone());
        self.settings = settings;
    }
}
