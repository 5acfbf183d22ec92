//! [`Slot`]: the life of one server under one key.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Demand, Effect, End, Gauge, Generation, Refusal, SlotId, SlotSettings, WaiterId};
use crate::EndReason;
use crate::account::ServerState;
use crate::restart::{Restarts, Time, Verdict};

/// Where a slot is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing runs.
    Vacant,
    /// A process is being started.
    Starting,
    /// It can be leased.
    Ready { since: Time },
    /// It is being ended, or has died and the rest of it is being ended.
    Ending,
    /// It is not proven gone; to be tried again at this time.
    Uncertain { retry_at: Time },
    /// It failed, and may start again at this time.
    Backoff { until: Time },
    /// It failed too often.
    Exhausted { until: Option<Time> },
}

/// How long after a failed end the next attempt is made: doubling, within these.
const END_AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));

#[derive(Debug)]
struct Waiter {
    id: WaiterId,
    /// When it will have given up.
    patience: Time,
}

/// One slot. Its methods are what can happen to it.
#[derive(Debug)]
pub(crate) struct Slot<G> {
    pub(super) id: SlotId,
    pub(super) settings: SlotSettings,
    phase: Phase,
    generation: Generation,
    restarts: Restarts,
    retired: Option<EndReason>,
    leases: usize,
    waiters: VecDeque<Waiter>,
    gauge: Option<G>,
    idle_since: Time,
    last_used: Time,
    /// When the process of this generation became ready, if it did.
    was_ready: Option<Time>,
    died_at: Time,
    unproven: u32,
    /// Whether it stands in the queue of starts.
    pub(super) queued: bool,
}

impl<G: Gauge> Slot<G> {
    pub(super) fn new(id: SlotId, settings: SlotSettings, now: Time) -> Self {
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

    /// Whether a process exists or may exist.
    pub(crate) fn is_live(&self) -> bool {
        use Phase::{Ending, Ready, Starting, Uncertain};
        matches!(
            self.phase,
            Starting | Ready { .. } | Ending | Uncertain { .. }
        )
    }

    pub(super) fn wants_start(&self) -> bool {
        self.phase == Phase::Vacant
            && self.retired.is_none()
            && (self.settings.demand == Demand::Declared || !self.waiters.is_empty())
    }

    /// Whether it runs and nobody uses it.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. })
            && self.settings.demand == Demand::OnDemand
            && self.leases == 0
            && self.waiters.is_empty()
            && !self.gauge.as_ref().is_some_and(Gauge::is_busy)
    }

    /// Whether nothing would be lost by forgetting it.
    pub(super) fn is_void(&self, now: Time) -> bool {
        if self.is_live() || !self.waiters.is_empty() {
            return false;
        }
        let stale = || self.restarts.forget_at().is_some_and(|at| at <= now);
        self.retired.is_some() || (self.settings.demand == Demand::OnDemand && stale())
    }

    /// Grants a lease now, if that is possible.
    pub(super) fn lease(&mut self, now: Time) -> Option<Generation> {
        if !matches!(self.phase, Phase::Ready { .. }) {
            return None;
        }
        if self.gauge.as_ref().is_none_or(Gauge::is_dead) {
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

    /// Queues somebody for the next lease, unless that is hopeless.
    pub(super) fn wait(&mut self, id: WaiterId, patience: Time) -> Result<(), Refusal> {
        self.hopeless(patience)?;
        self.waiters.push_back(Waiter { id, patience });
        Ok(())
    }

    fn hopeless(&self, patience: Time) -> Result<(), Refusal> {
        let failures = self.failures();
        match (&self.retired, &self.phase) {
            (Some(reason), _) => Err(Refusal::Retired(reason.clone())),
            (_, &Phase::Backoff { until }) if until > patience => {
                Err(Refusal::Backoff { until, failures })
            }
            (_, &Phase::Exhausted { until }) => Err(Refusal::Exhausted { until, failures }),
            (_, Phase::Uncertain { .. }) => Err(Refusal::Uncertain),
            _ => Ok(()),
        }
    }

    /// Removes a waiter. The start goes on, for the others or for the next.
    pub(super) fn cancel(&mut self, id: WaiterId, now: Time) -> bool {
        let before = self.waiters.len();
        self.waiters.retain(|waiter| waiter.id != id);
        self.idle_since = now;
        self.waiters.len() < before
    }

    /// A lease came back. One of an earlier process changes nothing.
    pub(super) fn release(&mut self, generation: Generation, now: Time, out: &mut Vec<Effect>) {
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
    pub(super) fn start(&mut self, out: &mut Vec<Effect>) {
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

    pub(super) fn started(
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
    pub(super) fn died(&mut self, generation: Generation, now: Time) {
        if generation == self.generation && matches!(self.phase, Phase::Ready { .. }) {
            self.died_at = now;
            self.phase = Phase::Ending;
        }
    }

    /// The start failed, or the process has ended: proven, or not.
    pub(super) fn ended(&mut self, end: End, now: Time, out: &mut Vec<Effect>) {
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
            let (first, longest) = END_AGAIN;
            let wait = first
                .saturating_mul(1 << self.unproven.min(16))
                .min(longest);
            self.unproven += 1;
            self.phase = Phase::Uncertain {
                retry_at: now + wait,
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
        let hopeless: Vec<_> = self
            .waiters
            .iter()
            .filter_map(|w| Some((w.id, self.hopeless(w.patience).err()?)))
            .collect();
        for (waiter, refusal) in hopeless {
            self.cancel(waiter, now);
            out.push(Effect::Refuse { waiter, refusal });
        }
    }

    /// Never starts again; what runs is ended. The first reason stays.
    pub(super) fn retire(&mut self, reason: &EndReason, out: &mut Vec<Effect>) {
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
            Phase::Ending | Phase::Uncertain { .. } => {}
            Phase::Vacant | Phase::Backoff { .. } | Phase::Exhausted { .. } => {
                self.phase = Phase::Vacant;
            }
        }
    }

    /// Starts a new series of failures, by hand.
    pub(super) fn reset(&mut self) {
        self.restarts.reset();
        if matches!(self.phase, Phase::Backoff { .. } | Phase::Exhausted { .. }) {
            self.phase = Phase::Vacant;
        }
    }

    /// Takes over settings that need no other process.
    pub(super) fn configure(&mut self, settings: SlotSettings) {
        self.restarts.set_policy(settings.restart.clone());
        self.settings = settings;
    }

    /// What the time makes happen.
    pub(super) fn tick(&mut self, now: Time, out: &mut Vec<Effect>) {
        match self.phase {
            Phase::Backoff { until } if until <= now => self.phase = Phase::Vacant,
            Phase::Exhausted { until: Some(until) } if until <= now => self.reset(),
            Phase::Uncertain { retry_at } if retry_at <= now => self.end_again(out),
            Phase::Ready { .. } if self.idle_deadline().is_some_and(|at| at <= now) => {
                if self.is_idle() {
                    self.retire(&EndReason::Idle, out);
                } else {
                    // A call goes on though its lease was returned.
                    self.idle_since = now;
                }
            }
            _ => {}
        }
    }

    pub(super) fn end_again(&mut self, out: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Uncertain { .. }) {
            self.phase = Phase::Ending;
            out.push(Effect::EndAgain { slot: self.id });
        }
    }

    /// When [`tick`](Self::tick) will have something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::Backoff { until: at } | Phase::Uncertain { retry_at: at } => Some(at),
            Phase::Exhausted { until } => until,
            Phase::Ready { .. } => self.idle_deadline(),
            Phase::Vacant
                if self.settings.demand == Demand::OnDemand && self.waiters.is_empty() =>
            {
                self.restarts.forget_at()
            }
            Phase::Vacant | Phase::Starting | Phase::Ending => None,
        }
    }

    fn idle_deadline(&self) -> Option<Time> {
        let unused = self.settings.demand == Demand::OnDemand && self.leases == 0;
        let ttl = self.settings.idle_ttl?;
        (unused && self.waiters.is_empty()).then(|| self.idle_since + ttl)
    }

    pub(super) fn refuse_all(&mut self, refusal: &Refusal, out: &mut Vec<Effect>) {
        for waiter in self.waiters.drain(..) {
            out.push(Effect::Refuse {
                waiter: waiter.id,
                refusal: refusal.clone(),
            });
        }
    }

    fn grant(&mut self, now: Time, out: &mut Vec<Effect>) {
        while !self.waiters.is_empty() {
            let Some(generation) = self.lease(now) else {
                return;
            };
            if let Some(Waiter { id, .. }) = self.waiters.pop_front() {
                out.push(Effect::Grant {
                    waiter: id,
                    slot: self.id,
                    generation,
                });
            }
        }
    }
}
