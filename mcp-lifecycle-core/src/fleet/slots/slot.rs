mod tick;
mod wait;

use std::collections::VecDeque;

use self::tick::end_again_after;
use self::wait::Waiter;
use super::effect::{Effect, Entry, Generation, SlotId};
use super::settings::{Demand, SlotSettings};
use crate::fleet::ServerState::{
    self, Backoff, Ending, Exhausted, Queued, Ready, Starting, Unproven,
};
use crate::fleet::restart::{Restarts, Time, Verdict};
use crate::fleet::{AcquireErrorKind, Sharing};
use crate::terminate::EndReason;

#[derive(Debug)]
pub(crate) struct Slot<E> {
    pub(crate) id: SlotId,
    pub(crate) entry: E,
    pub(crate) settings: SlotSettings,
    state: ServerState,
    /// When an unproven end is retried, or a failed server may start again, if ever.
    next: Option<Time>,
    generation: Generation,
    restarts: Restarts,
    retired: Option<EndReason>,
    leases: usize,
    waiters: VecDeque<Waiter>,
    idle_since: Time,
    last_used: Time,
    was_ready: Option<Time>,
    died_at: Time,
    unproven: u32,
    pub(in crate::fleet::slots) queued: bool,
}

impl<E: Entry> Slot<E> {
    pub(in crate::fleet::slots) fn new(
        id: SlotId,
        entry: E,
        settings: SlotSettings,
        now: Time,
    ) -> Self {
        Self {
            id,
            entry,
            restarts: Restarts::new(settings.options.restart.clone()),
            settings,
            state: Queued,
            next: None,
            generation: 0,
            retired: None,
            leases: 0,
            waiters: VecDeque::new(),
            idle_since: now,
            last_used: now,
            was_ready: None,
            died_at: now,
            unproven: 0,
            queued: false,
        }
    }

    pub(crate) fn state(&self) -> ServerState {
        self.state
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.next
    }

    fn enter(&mut self, state: ServerState, next: Option<Time>) {
        (self.state, self.next) = (state, next);
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

    /// Returns whether a process exists or may exist.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.state, Starting | Ready | Ending | Unproven)
    }

    pub(in crate::fleet::slots) fn wants_start(&self) -> bool {
        self.state == Queued
            && self.retired.is_none()
            && (self.settings.demand == Demand::Declared || !self.waiters.is_empty())
    }

    pub(in crate::fleet::slots) fn is_idle(&self) -> bool {
        self.state == Ready
            && self.settings.demand == Demand::OnDemand
            && self.leases == 0
            && self.waiters.is_empty()
            && !self.entry.is_busy()
    }

    pub(in crate::fleet::slots) fn is_forgettable(&self, now: Time) -> bool {
        if self.is_live() || !self.waiters.is_empty() {
            return false;
        }
        let stale = || self.restarts.forget_at().is_some_and(|at| at <= now);
        self.retired.is_some() || (self.settings.demand == Demand::OnDemand && stale())
    }

    pub(in crate::fleet::slots) fn lease(&mut self, now: Time) -> Option<Generation> {
        if self.state != Ready {
            return None;
        }
        if self.entry.is_dead() {
            self.died(self.generation, now);
            return None;
        }
        if self.settings.options.sharing == Sharing::Exclusive && self.leases > 0 {
            return None;
        }
        self.leases += 1;
        self.last_used = now;
        Some(self.generation)
    }

    /// Takes a lease back. One of an earlier process has no effect.
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

    pub(in crate::fleet::slots) fn start(&mut self, out: &mut Vec<Effect>) {
        self.generation += 1;
        self.leases = 0;
        self.was_ready = None;
        self.unproven = 0;
        self.state = Starting;
        out.push(Effect::Start {
            slot: self.id,
            generation: self.generation,
        });
    }

    pub(in crate::fleet::slots) fn started(
        &mut self,
        generation: Generation,
        now: Time,
        out: &mut Vec<Effect>,
    ) {
        if generation != self.generation || self.state != Starting {
            return;
        }
        self.was_ready = Some(now);
        self.idle_since = now;
        self.state = Ready;
        self.grant(now, out);
    }

    pub(in crate::fleet::slots) fn died(&mut self, generation: Generation, now: Time) {
        if generation == self.generation && self.state == Ready {
            self.died_at = now;
            self.state = Ending;
        }
    }

    /// Records a failed start or the end of the process, proven or not. `entropy` spreads the
    /// retries of servers that failed together.
    pub(in crate::fleet::slots) fn ended(
        &mut self,
        generation: Generation,
        proven: bool,
        entropy: u64,
        now: Time,
        out: &mut Vec<Effect>,
    ) {
        if generation != self.generation || !self.is_live() {
            return;
        }
        if self.state == Starting {
            self.refuse_all(&self.start_failed(), out);
        }
        self.died(generation, now);
        if !proven {
            let wait = end_again_after(self.unproven);
            self.unproven += 1;
            self.enter(Unproven, Some(now.saturating_add(wait)));
            return self.refuse_all(&AcquireErrorKind::Unproven(self.last_error()), out);
        }
        self.enter(Queued, None);
        if self.retired.is_some() {
            return;
        }
        let uptime = self
            .was_ready
            .map(|since| self.died_at.saturating_sub(since));
        match self.restarts.failed(uptime, now, entropy) {
            Verdict::RetryAt(until) => self.enter(Backoff, Some(until)),
            Verdict::Exhausted(until) => self.enter(Exhausted, until),
        }
        let refused_before: Vec<_> = self
            .waiters
            .iter()
            .filter_map(|w| Some((w.id, self.refused_before(w.deadline, now).err()?)))
            .collect();
        for (waiter, refusal) in refused_before {
            self.cancel(waiter, now);
            out.push(Effect::Refuse { waiter, refusal });
        }
    }

    /// Ends the process and never starts again. The first reason wins.
    pub(in crate::fleet::slots) fn retire(&mut self, reason: &EndReason, out: &mut Vec<Effect>) {
        if self.retired.is_some() {
            return;
        }
        self.retired = Some(reason.clone());
        self.refuse_all(&AcquireErrorKind::Retired(reason.clone()), out);
        match self.state {
            Starting | Ready => {
                self.state = Ending;
                out.push(Effect::End {
                    slot: self.id,
                    reason: reason.clone(),
                });
            }
            Ending => {}
            // Another server needs this capacity.
            Unproven => self.end_again(out),
            Queued | Backoff | Exhausted => self.enter(Queued, None),
        }
    }

    pub(in crate::fleet::slots) fn reset(&mut self) {
        self.restarts.reset();
        if matches!(self.state, Backoff | Exhausted) {
            self.enter(Queued, None);
        }
    }

    pub(in crate::fleet::slots) fn configure(&mut self, settings: SlotSettings) {
        self.restarts.set_policy(settings.options.restart.clone());
        self.settings = settings;
    }
}
