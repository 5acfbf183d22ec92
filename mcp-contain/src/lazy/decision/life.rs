//! Start, handshake, idleness, end.

use std::rc::Rc;
use std::time::Duration;

use super::events::{Action, Exit};
use super::restart::YOUNG;
use super::{Own, Phase, Relay, error, notification};

/// Uptime after which an end is no failed start.
const SUSTAINED: Duration = Duration::from_secs(60);

const HANDSHAKE: Duration = Duration::from_secs(60);

/// Time for the exit of a server that has closed its input to be noticed.
const EXITING: Duration = Duration::from_millis(250);

const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Relay {
    pub(in crate::lazy) fn deadline(&self) -> Option<Duration> {
        let waiting = match self.phase {
            Phase::Waiting(until) => Some(until),
            Phase::Starting => self.handshake_end(),
            _ => self.silence_end().or_else(|| self.idle_end()),
        };
        let all = [self.cut, self.deaf, waiting, self.restart_due()];
        all.into_iter().flatten().min()
    }

    pub(super) fn time(&mut self) {
        let now = self.now;
        let is_due = |at: Duration| at <= now;
        if self.cut.is_some_and(is_due) {
            self.cut = None;
            self.is_closed = true;
            self.todo.push(Action::CloseNow);
        }
        if self.deaf.is_some_and(is_due) {
            self.deaf = None;
            self.fail("the server has closed its input, and is ended");
        }
        if self.restart_due().is_some_and(is_due) {
            self.restart(now.saturating_sub(self.started) >= YOUNG);
        }
        if self.silence_end().is_some_and(is_due) {
            self.todo.push(Action::Look);
        }
        if let Phase::Waiting(until) = self.phase
            && is_due(until)
        {
            self.phase = Phase::Asleep;
            self.wake();
        } else if self.handshake_end().is_some_and(is_due) {
            self.fail("it did not answer the handshake in time");
        } else if self.idle_end().is_some_and(is_due) {
            self.phase = Phase::Ending;
            self.close();
        }
    }

    pub(super) fn input_closed(&mut self) {
        if matches!(self.phase, Phase::Running | Phase::Starting) {
            self.deaf = Some(self.now.saturating_add(EXITING));
        }
    }

    fn handshake_end(&self) -> Option<Duration> {
        let is_awaited = self.phase == Phase::Starting && !self.has_host_closed;
        let end = self.started.checked_add(HANDSHAKE);
        end.filter(|_| is_awaited)
    }

    fn idle_end(&self) -> Option<Duration> {
        let is_unused =
            self.phase == Phase::Running && self.is_at_rest() && !self.is_kept && !self.is_closed;
        let idle = match self.is_legacy {
            true => self.policy.idle_legacy,
            false => self.policy.idle,
        };
        let idle = idle.filter(|_| is_unused && self.policy.lazy)?;
        self.used.checked_add(idle)
    }

    pub(super) fn grace_end(&self) -> Duration {
        self.now.saturating_add(self.policy.grace)
    }

    pub(super) fn host_closed(&mut self) {
        if std::mem::replace(&mut self.has_host_closed, true) {
            return;
        }
        match self.phase {
            Phase::Asleep | Phase::Waiting(_) => {
                self.refuse("the host has closed its end");
                self.todo.push(Action::Exit(Exit::Success));
            }
            Phase::Running => self.close(),
            // Ended once the handshake is complete.
            Phase::Starting => self.cut = Some(self.grace_end()),
            Phase::Ending | Phase::Failing => {}
        }
    }

    pub(super) fn leave(&mut self) {
        self.is_leaving = true;
        if matches!(self.phase, Phase::Asleep | Phase::Waiting(_)) {
            // Otherwise a server would be started for queued lines.
            self.refuse("the relay was asked to end");
            self.todo.push(Action::Exit(Exit::Success));
        }
    }

    pub(super) fn gone(&mut self, how: &str) {
        let phase = std::mem::replace(&mut self.phase, Phase::Asleep);
        let starts_again = std::mem::take(&mut self.starts_again);
        self.is_closed = false;
        self.cut = None;
        self.deaf = None;
        self.doubt = None;
        // Lines queued since its end began are for the next server.
        self.is_kept &= phase == Phase::Ending;
        self.own.clear();
        self.forget_questions();
        let is_over = match phase {
            Phase::Ending => self.is_leaving || (self.has_host_closed && self.held.is_empty()),
            _ => self.is_leaving || self.has_host_closed || !self.policy.restart,
        };
        if is_over {
            if self.policy.restart || phase == Phase::Failing {
                self.refuse(how);
            }
            let exit = match phase {
                Phase::Ending => Exit::Success,
                _ => Exit::AsServer,
            };
            return self.todo.push(Action::Exit(exit));
        }
        let was_sustained = self.now.saturating_sub(self.started) >= SUSTAINED;
        if was_sustained {
            self.failures = 0;
        }
        if phase != Phase::Ending {
            // An exit while idle is no failure.
            let has_failed = (phase == Phase::Failing || !self.flight.is_empty()) && !was_sustained;
            self.refuse(&format!(
                "{how} before it answered; it is started again at the next request"
            ));
            self.failures = match has_failed {
                true => self.failures.saturating_add(1),
                false => 0,
            };
            if let Some(pause) = pause(self.failures) {
                self.phase = Phase::Waiting(self.now.saturating_add(pause));
                return;
            }
        }
        if starts_again || !self.held.is_empty() {
            self.start();
        }
    }

    pub(super) fn lost(&mut self, how: &str) {
        self.phase = Phase::Asleep;
        self.is_leaving = true;
        self.forget_questions();
        self.refuse(&format!(
            "{how}, and something of it may live: no other is started"
        ));
        self.todo.push(Action::Exit(Exit::Unproven));
    }

    /// Cancels the server's requests in flight: their answers must not reach its successor.
    fn forget_questions(&mut self) {
        for asked in self.asked.values_mut().filter(|asked| !asked.is_over) {
            asked.is_over = true;
            let id = String::from_utf8_lossy(&asked.text);
            let params =
                format!(",\"params\":{{\"requestId\":{id},\"reason\":\"the server ended\"}}");
            self.todo.push(notification("cancelled", &params));
        }
    }

    pub(super) fn wake(&mut self) {
        if !self.held.is_empty() {
            self.start();
        }
    }

    pub(super) fn start(&mut self) {
        self.used = self.now;
        self.started = self.now;
        self.changed = None;
        if self.has_host_closed {
            self.cut = Some(self.grace_end());
        }
        self.todo.push(Action::Start);
        let has_handshake = std::mem::take(&mut self.holds_handshake);
        match &self.handshake {
            Some(handshake) if !has_handshake => {
                self.phase = Phase::Starting;
                self.own.insert(handshake.id.clone(), Own::Handshake);
                let line = Rc::clone(&handshake.line);
                self.todo.push(Action::ToServer(line));
            }
            _ => {
                self.give();
                if !has_handshake {
                    self.renew();
                }
            }
        }
    }

    pub(super) fn ready(&mut self) {
        self.used = self.now;
        if let Some(line) = &self.initialized {
            self.todo.push(Action::ToServer(Rc::clone(line)));
        }
        // A queued request is sent in any case, and answered to the host.
        if let Some((id, line)) = &self.level
            && !self.flight.has(id)
        {
            self.own.insert(id.clone(), Own::Level);
            self.todo.push(Action::ToServer(Rc::clone(line)));
        }
        self.give();
        self.renew();
    }

    fn give(&mut self) {
        self.phase = Phase::Running;
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.todo.push(Action::ToServer(held.into()));
        }
        if self.has_host_closed {
            self.close();
        }
    }

    /// Renews the answers that the host knows; last, since other requests wait.
    fn renew(&mut self) {
        if self.is_closed {
            return;
        }
        for (key, seen) in &self.seen {
            if !self.flight.has(&seen.id) && !self.own.contains_key(&seen.id) {
                self.own.insert(seen.id.clone(), Own::Renewal(*key));
                self.todo.push(Action::ToServer(Rc::clone(&seen.line)));
            }
        }
    }

    pub(super) fn close(&mut self) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.cut = Some(self.grace_end());
            self.todo.push(Action::Close);
        }
    }

    pub(super) fn fail(&mut self, why: &str) {
        self.phase = Phase::Failing;
        self.refuse(why);
        self.close();
    }

    /// Answers all requests in flight with an error, and drops the queued lines.
    pub(super) fn refuse(&mut self, why: &str) {
        self.held.clear();
        self.holds_handshake = false;
        let refused = self.flight.drain();
        let refused = refused.map(|pending| Action::ToHost(error(&pending.text, why)));
        self.todo.extend(refused);
    }
}

/// Returns the pause after this many failures in a row; none after the first.
fn pause(failures: u32) -> Option<Duration> {
    let doublings = failures.checked_sub(2)?;
    let seconds = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}
