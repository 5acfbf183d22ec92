//! Start, handshake, idleness, end.

use std::rc::Rc;
use std::time::Duration;

use super::bounds::KEPT;
use super::words::{Action, Exit};
use super::{Long, Own, Phase, Relay, Said, refusal};
use crate::lazy::message::Id;

/// A server that has run for so long did not fail at its start.
const SUSTAINED: Duration = Duration::from_secs(60);

/// The time that a server has for the handshake that it is given again.
const HANDSHAKE: Duration = Duration::from_secs(60);

/// The longest wait before another start.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Relay {
    /// Starts a server now, if requests are not to be answered without one.
    pub(in crate::lazy) fn begin(&mut self, now: Duration) -> Vec<Action> {
        let mut todo = Vec::new();
        if !self.policy.lazy {
            self.start(now, &mut todo);
        }
        todo
    }

    /// The instant at which [`time`](Self::time) has something to do.
    pub(in crate::lazy) fn deadline(&self) -> Option<Duration> {
        let waiting = match self.phase {
            Phase::Waiting { until } => Some(until),
            Phase::Starting => self.handshake_end(),
            _ => self.idle_end(),
        };
        [self.cut, waiting].into_iter().flatten().min()
    }

    /// Decides on what is due.
    pub(in crate::lazy) fn time(&mut self, now: Duration) -> Vec<Action> {
        let mut todo = Vec::new();
        let is_due = |at: Duration| at <= now;
        if self.cut.is_some_and(is_due) {
            self.cut = None;
            self.is_closed = true;
            todo.push(Action::CloseNow);
        }
        if let Phase::Waiting { until } = self.phase
            && is_due(until)
        {
            self.phase = Phase::Asleep;
            self.wake(now, &mut todo);
        } else if self.handshake_end().is_some_and(is_due) {
            self.fail(now, "it did not answer the handshake in time", &mut todo);
        } else if self.idle_end().is_some_and(is_due) {
            self.phase = Phase::Ending;
            self.close(now, &mut todo);
        }
        todo
    }

    /// When a server that does not answer the handshake is given up.
    fn handshake_end(&self) -> Option<Duration> {
        let is_awaited = self.phase == Phase::Starting && !self.has_host_closed;
        let end = self.started.checked_add(HANDSHAKE);
        end.filter(|_| is_awaited)
    }

    /// When an unused server is ended.
    fn idle_end(&self) -> Option<Duration> {
        let is_unused = self.phase == Phase::Running
            && self.flight.is_empty()
            && self.asked.is_empty()
            && self.own.is_empty()
            && self.subscriptions.is_empty()
            && !self.is_kept
            && !self.is_closed;
        let idle = match self.is_legacy {
            true => self.policy.idle_legacy,
            false => self.policy.idle,
        };
        let idle = idle.filter(|_| is_unused && self.policy.lazy)?;
        self.used.checked_add(idle)
    }

    /// Decides on a server that reads: what there is for it may take as long again.
    pub(in crate::lazy) fn progress(&mut self, now: Duration) {
        let again = now.saturating_add(self.policy.grace);
        self.cut = self.cut.map(|_| again);
    }

    /// Decides on the end of what the host sends.
    pub(in crate::lazy) fn host_closed(&mut self, now: Duration) -> Vec<Action> {
        let mut todo = Vec::new();
        if std::mem::replace(&mut self.has_host_closed, true) {
            return todo;
        }
        match self.phase {
            Phase::Asleep => todo.push(Action::Exit(Exit::Success)),
            Phase::Waiting { .. } => {
                self.refuse("the host has closed its end", &mut todo);
                todo.push(Action::Exit(Exit::Success));
            }
            Phase::Running => self.close(now, &mut todo),
            // When the handshake is done.
            Phase::Starting => self.cut = Some(now.saturating_add(self.policy.grace)),
            Phase::Ending | Phase::Failing => {}
        }
        todo
    }

    /// Decides on a signal to end, which the server gets as well.
    pub(in crate::lazy) fn leave(&mut self) -> Vec<Action> {
        self.is_leaving = true;
        let mut todo = Vec::new();
        if !self.has_server() {
            // Or a server would be started for what is held.
            self.refuse("the relay was told to end", &mut todo);
            todo.push(Action::Exit(Exit::Success));
        }
        todo
    }

    /// Decides on the end of a server of which nothing is left; `how` it ended is for people.
    pub(in crate::lazy) fn gone(&mut self, now: Duration, how: &str) -> Vec<Action> {
        let mut todo = Vec::new();
        let phase = std::mem::replace(&mut self.phase, Phase::Asleep);
        let was_closed = std::mem::take(&mut self.is_closed);
        self.cut = None;
        // What is held since its end began is the next one's.
        self.is_kept &= phase == Phase::Ending;
        self.own.clear();
        if self.long == Long::Given {
            self.long = Long::Lost;
        }
        self.forget_questions(&mut todo);
        let by_itself = matches!(phase, Phase::Running | Phase::Starting) && !was_closed;
        let is_over = match phase {
            Phase::Ending => self.is_leaving || (self.has_host_closed && self.held.is_empty()),
            _ => self.is_leaving || self.has_host_closed || !self.policy.restart,
        };
        if is_over {
            if self.policy.restart || phase == Phase::Failing {
                self.refuse(how, &mut todo);
            }
            let exit = match phase {
                Phase::Ending => Exit::Success,
                _ => Exit::AsServer,
            };
            todo.push(Action::Exit(exit));
            return todo;
        }
        let was_sustained = now.saturating_sub(self.started) >= SUSTAINED;
        if was_sustained {
            self.failures = 0;
        }
        if by_itself || phase == Phase::Failing {
            // One that leaves when there is nothing to do has done nothing wrong.
            let has_failed = (phase == Phase::Failing || !self.flight.is_empty()) && !was_sustained;
            let why = format!("{how} before it answered; it is started again at the next request");
            self.refuse(&why, &mut todo);
            self.failures = if has_failed {
                self.failures.saturating_add(1)
            } else {
                0
            };
            if let Some(wait) = wait(self.failures) {
                self.phase = Phase::Waiting {
                    until: now.saturating_add(wait),
                };
                return todo;
            }
        }
        self.wake(now, &mut todo);
        todo
    }

    /// Decides on the end of a server of which something may live: no other is started beside that.
    pub(in crate::lazy) fn lost(&mut self, how: &str) -> Vec<Action> {
        let mut todo = Vec::new();
        self.phase = Phase::Asleep;
        self.is_leaving = true;
        self.forget_questions(&mut todo);
        let why = format!("{how}, and something of it may live: no other is started");
        self.refuse(&why, &mut todo);
        todo.push(Action::Exit(Exit::Unproven));
        todo
    }

    /// The server's questions will not be answered to it, and not to its successor.
    fn forget_questions(&mut self, todo: &mut Vec<Action>) {
        for (id, text) in self.asked.drain() {
            let text = String::from_utf8_lossy(&text);
            let line = format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{text},\"reason\":\"the server ended\"}}}}\n"
            );
            todo.push(Action::Say(line.into_bytes()));
            let sizes = self.unanswered.iter().map(Id::len);
            if KEPT.allows_beside(sizes, id.len()) {
                self.unanswered.insert(id);
            } else {
                self.has_forgotten = true;
            }
        }
    }

    /// Starts a server if something waits for one.
    fn wake(&mut self, now: Duration, todo: &mut Vec<Action>) {
        if !self.held.is_empty() {
            self.start(now, todo);
        }
    }

    /// Starts a server, and gives it what is held, or the handshake before that.
    pub(super) fn start(&mut self, now: Duration, todo: &mut Vec<Action>) {
        self.used = now;
        self.started = now;
        if self.has_host_closed {
            self.cut = Some(now.saturating_add(self.policy.grace));
        }
        todo.push(Action::Start);
        match &self.handshake {
            Some(handshake) if !self.holds_handshake => {
                self.phase = Phase::Starting;
                self.own.insert(handshake.id.clone(), Own::Handshake);
                todo.push(Action::Tell(Rc::clone(&handshake.line)));
            }
            _ => {
                self.give(now, todo);
                if !self.holds_handshake {
                    self.renew(todo);
                }
                self.holds_handshake = false;
            }
        }
    }

    /// The handshake is done.
    pub(super) fn ready(&mut self, now: Duration, todo: &mut Vec<Action>) {
        self.used = now;
        if let Some(line) = &self.initialized {
            todo.push(Action::Tell(Rc::clone(line)));
        }
        let state = self.level.iter().chain(self.subscriptions.values());
        for Said { id, line } in state {
            // What is held is sent anyway, and answered to the host.
            if !self.flight.has(id) {
                self.own.insert(id.clone(), Own::State);
                todo.push(Action::Tell(Rc::clone(line)));
            }
        }
        self.give(now, todo);
        self.renew(todo);
    }

    /// Gives the server what is held.
    fn give(&mut self, now: Duration, todo: &mut Vec<Action>) {
        self.phase = Phase::Running;
        let held = std::mem::take(&mut self.held);
        if self.long == Long::Held {
            self.long = Long::Given;
        }
        if !held.is_empty() {
            todo.push(Action::Tell(held.into()));
        }
        if self.has_host_closed {
            self.close(now, todo);
        }
    }

    /// Asks again for what the host knows, last: it waits for something else.
    fn renew(&mut self, todo: &mut Vec<Action>) {
        if self.is_closed {
            return;
        }
        for (key, seen) in &self.seen {
            if !self.flight.has(&seen.id) && !self.own.contains_key(&seen.id) {
                self.own.insert(seen.id.clone(), Own::Renewal(*key));
                todo.push(Action::Tell(Rc::clone(&seen.line)));
            }
        }
    }

    fn close(&mut self, now: Duration, todo: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.cut = Some(now.saturating_add(self.policy.grace));
            todo.push(Action::Close);
        }
    }

    /// Ends a server that cannot be used.
    pub(super) fn fail(&mut self, now: Duration, why: &str, todo: &mut Vec<Action>) {
        self.phase = Phase::Failing;
        self.refuse(why, todo);
        self.close(now, todo);
    }

    /// Answers all that waits with an error.
    fn refuse(&mut self, why: &str, todo: &mut Vec<Action>) {
        self.held.clear();
        self.holds_handshake = false;
        if self.long == Long::Held {
            self.long = Long::Lost;
        }
        let refusals = self.flight.drain();
        let refusals = refusals.map(|pending| refusal(&pending.text, why));
        todo.extend(refusals);
    }

    fn has_server(&self) -> bool {
        !matches!(self.phase, Phase::Asleep | Phase::Waiting { .. })
    }
}

/// The wait after so many failures in a row; none after the first.
fn wait(failures: u32) -> Option<Duration> {
    let doublings = failures.checked_sub(2)?;
    let seconds = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}
