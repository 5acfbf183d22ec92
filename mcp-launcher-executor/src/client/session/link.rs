use std::time::{Duration, Instant};

use super::{Effect, Purpose, Session};
use crate::ExecutorError;
use crate::protocol::extension::Extensions;
use crate::protocol::{
    InitializeParams, InitializeResult, Params, RequestId, RpcError, code, encode_notification,
    encode_request, method,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkState {
    Connecting,
    Hello { id: i64, until: Instant },
    Up,
    Waiting(Instant),
    Dead,
}

impl Session {
    pub(crate) fn link_up(&mut self, now: Instant) {
        let id = self.next_id;
        self.next_id += 1;
        let until = now + self.timing.hello;
        self.link = LinkState::Hello { id, until };
        self.heard = now;
        self.pinged = now;
        self.due(until);
        let params = InitializeParams {
            client_name: self.client_name.clone(),
            resume_session_id: self.session_id.clone(),
            extensions: Some(Extensions {
                mcp_lifecycle: Some(self.wish.clone()),
            }),
        };
        let frame = encode_request(&RequestId::Number(id), method::INITIALIZE, &params);
        self.effects.push_back(Effect::Send(frame));
    }

    pub(crate) fn link_down(&mut self, now: Instant, reason: ExecutorError) {
        if self.link == LinkState::Dead {
            return;
        }
        let lost_at = *self.lost_at.get_or_insert(now);
        let retry = now + self.timing.retry;
        if self.session_id.is_none() || retry > lost_at + self.timing.resume {
            self.die(reason);
            return;
        }
        tracing::debug!(error = %reason, "link to the executor lost, resuming");
        self.link = LinkState::Waiting(retry);
        self.due(retry);
    }

    pub(crate) fn hears(&mut self, now: Instant) {
        self.heard = now;
    }

    pub(crate) fn alive(&mut self, now: Instant) {
        self.heard = now;
        self.progress();
    }

    /// Notes that a whole frame has arrived: only then a link counts as resumed, and not if the
    /// same frame breaks it again and again.
    pub(super) fn progress(&mut self) {
        if self.link == LinkState::Up {
            self.lost_at = None;
        }
    }

    /// Handles a peer that closed the link over a frame that is too large for it: fails the largest
    /// one in flight, which would also break the next link.
    pub(crate) fn frame_refused(&mut self, now: Instant) {
        let sent = self.calls.iter().filter(|(_, call)| call.sent);
        let largest = sent.max_by_key(|(_, call)| call.params.get().len());
        let id = largest.map(|(id, _)| *id);
        if let Some(mut call) = id.and_then(|id| self.calls.remove(&id)) {
            let size = call.params.get().len();
            // It may have been another frame, and this one carried out.
            call.repeated = true;
            self.too_large(now, call, size, "less than that");
        }
    }

    pub(crate) fn no_ping(&mut self, now: Instant) {
        if self.is_extended() {
            self.call(now, method::PING, &serde_json::Map::new(), Purpose::Fire);
        } else {
            // A plain peer over a pipe: its end of file is the only sign.
            self.heard = now;
        }
    }

    pub(crate) fn tick(&mut self, now: Instant) {
        if now < self.earliest {
            return;
        }
        match self.link {
            LinkState::Waiting(retry) if retry <= now => {
                self.link = LinkState::Connecting;
                self.effects.push_back(Effect::Connect);
            }
            LinkState::Hello { until, .. } if until <= now => {
                self.drop_link(now, "no answer to `initialize`");
            }
            LinkState::Up => self.keep_alive(now),
            _ => {}
        }
        if self.expire(now) && self.link == LinkState::Up && self.is_worth_another_link() {
            self.drop_link(now, "it does not answer");
        }
        self.ask_for_what_is_missing(now);
        self.reschedule(now);
    }

    fn keep_alive(&mut self, now: Instant) {
        if now >= self.heard + self.timing.dead_after {
            self.drop_link(now, "it has been silent for too long");
        } else if now >= self.next_ping() {
            self.pinged = now;
            self.effects.push_back(Effect::Ping);
            if self.is_extended() {
                // A daemon that is short of memory waits for it.
                let untold = self.tracks.iter().filter(|(_, it)| it.unacknowledged > 0);
                let untold: Vec<String> = untold.map(|(id, _)| id.clone()).collect();
                untold.iter().for_each(|id| self.acknowledge(id));
            }
        }
    }

    /// Returns when the next ping is due. Our daemon measures its lease by our messages, however
    /// many it sends.
    fn next_ping(&self) -> Instant {
        let since = match self.is_extended() {
            true => self.pinged,
            false => self.heard.max(self.pinged),
        };
        since + self.timing.keep_alive
    }

    fn drop_link(&mut self, now: Instant, why: &str) {
        self.effects.push_back(Effect::Disconnect);
        self.link_down(now, ExecutorError::lost(why));
    }

    /// Returns whether another link helps a peer that is stuck on one request: not for our daemon,
    /// nor if the link cannot be resumed.
    fn is_worth_another_link(&self) -> bool {
        self.session_id.is_some() && !self.is_extended() && !self.timing.resume.is_zero()
    }

    fn ask_for_what_is_missing(&mut self, now: Instant) {
        if self.link != LinkState::Up {
            return;
        }
        let hole = self.hole();
        let missing: Vec<String> = self
            .tracks
            .iter()
            .filter(|(_, track)| track.hole_since.is_some_and(|since| since + hole <= now))
            .map(|(id, _)| id.clone())
            .collect();
        for id in missing {
            if self.is_extended() {
                let lost = ExecutorError::lost("events of the executor are missing");
                self.give_up(now, &id, lost);
                continue;
            }
            if let Some(track) = self.tracks.get_mut(&id) {
                track.hole_since = None;
            }
            self.recover(now, &id);
        }
    }

    /// Returns how long an event may be missing. Our daemon has kept it and sends it again over
    /// another link at the latest.
    pub(super) fn hole(&self) -> Duration {
        match self.is_extended() {
            true => self.timing.call,
            false => self.timing.hole,
        }
    }

    fn reschedule(&mut self, now: Instant) {
        let mut next = match self.link {
            LinkState::Waiting(when) | LinkState::Hello { until: when, .. } => when,
            LinkState::Up => self.next_ping().min(self.heard + self.timing.dead_after),
            LinkState::Connecting | LinkState::Dead => now + self.timing.keep_alive,
        };
        let deadlines = self.calls.values().filter_map(|call| call.deadline);
        let holes = self.tracks.values().filter_map(|track| track.hole_since);
        let holes = holes.map(|since| since + self.hole());
        for when in deadlines.chain(holes) {
            next = next.min(when);
        }
        self.earliest = next;
    }

    pub(super) fn hello_answered(&mut self, now: Instant, answer: Result<Params<'_>, RpcError>) {
        let resuming = self.session_id.is_some();
        let refused = match answer {
            Ok(result) => match result.parse::<InitializeResult>() {
                Ok(result) => {
                    self.opened(now, result, resuming);
                    return;
                }
                Err(error) => ExecutorError::Malformed {
                    method: method::INITIALIZE,
                    problem: error.to_string(),
                },
            },
            Err(error) if resuming && error.code == code::SESSION_ATTACHED => {
                self.drop_link(now, "the session is still attached to the lost link");
                return;
            }
            Err(error) if resuming && self.is_over_there(&error) => ExecutorError::SessionOver {
                reason: "the executor was started again, or has ended the session".to_owned(),
                unproven: unproven(&error),
            },
            Err(error) if resuming => ExecutorError::lost(format!(
                "the executor does not know the session any more ({error})"
            )),
            Err(error) => refused(method::INITIALIZE, error),
        };
        self.effects.push_back(Effect::Disconnect);
        self.die(refused);
    }

    /// Returns whether a daemon on the session's own machine reports that the session does not
    /// exist: then nothing is left there, except as reported.
    fn is_over_there(&self, error: &RpcError) -> bool {
        let said = |name: &str| error.data.as_ref()?.get(name)?.as_str();
        let ours = self.lifecycle.as_ref().and_then(|l| l.machine.as_deref());
        let there = ours.is_some() && said("machine") == ours;
        said("kind") == Some("unknownSession") && (there || unproven(error) > 0)
    }

    fn opened(&mut self, now: Instant, result: InitializeResult, resuming: bool) {
        self.link = LinkState::Up;
        self.heard = now;
        if !resuming {
            self.session_id = result.session_id.clone();
            let ours = result.extensions.as_ref();
            self.lifecycle = ours.and_then(|e| e.mcp_lifecycle.clone());
            self.respect_lease();
        }
        // Acknowledged before the peer begins to repeat.
        if resuming && self.is_extended() {
            let ids: Vec<String> = self.tracks.keys().cloned().collect();
            ids.iter().for_each(|id| self.acknowledge(id));
        }
        let ready = encode_notification(method::INITIALIZED, &serde_json::Map::new());
        self.effects.push_back(Effect::Send(ready));
        if resuming {
            self.resumed(now);
        } else {
            self.effects.push_back(Effect::Ready(Box::new(result)));
            let ids: Vec<i64> = self.calls.keys().copied().collect();
            ids.into_iter().for_each(|id| self.transmit(now, id));
        }
        self.reschedule(now);
    }

    fn respect_lease(&mut self) {
        let Some(lease) = self.lifecycle.as_ref().and_then(|l| l.lease_ms) else {
            return;
        };
        // A shorter lease would cause nothing but pings.
        let lease = Duration::from_millis(lease.max(100));
        let timing = &mut self.timing;
        timing.keep_alive = timing.keep_alive.min(lease / 3);
        // Half of it is left for a resume.
        timing.dead_after = timing.dead_after.min(lease / 2);
        timing.resume = timing.resume.min(lease);
    }

    fn resumed(&mut self, now: Instant) {
        // Ends first: the rest may contain what blocked the peer.
        let mut ids: Vec<(bool, i64)> = self
            .calls
            .iter()
            .map(|(id, call)| (call.method != method::TERMINATE, *id))
            .collect();
        ids.sort_unstable();
        ids.into_iter().for_each(|(_, id)| self.transmit(now, id));
        if self.is_extended() {
            return;
        }
        let tracked: Vec<String> = self.tracks.keys().cloned().collect();
        for id in tracked {
            let starting = self
                .calls
                .values()
                .any(|call| matches!(&call.purpose, Purpose::Start(started, _) if *started == id));
            if !starting {
                self.recover(now, &id);
            }
        }
    }

    /// Ends the session. Recorded before any process is notified.
    pub(super) fn die(&mut self, reason: ExecutorError) {
        self.link = LinkState::Dead;
        self.dead = Some(reason.clone());
        self.effects.push_back(Effect::Dead(reason.clone()));
        for (_, call) in std::mem::take(&mut self.calls) {
            self.conclude(call, Err(reason.clone()));
        }
        let tracked: Vec<String> = self.tracks.keys().cloned().collect();
        for id in tracked {
            self.fail_process(&id, reason.clone());
        }
    }
}

fn unproven(error: &RpcError) -> u64 {
    let said = error.data.as_ref().and_then(|data| data.get("unproven"));
    said.map_or(0, |said| said.as_u64().unwrap_or(1))
}

pub(super) fn refused(method: &'static str, error: RpcError) -> ExecutorError {
    let mut kind = error.kind().map(str::to_owned);
    let searched = error.searched();
    if error.code == code::LIMIT {
        kind = Some("limit".to_owned());
    }
    ExecutorError::Refused {
        method,
        code: error.code,
        message: error.message,
        kind,
        searched,
    }
}
