use std::time::Instant;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{Effect, LinkState, Session};
use crate::protocol::extension::AckParams;
use crate::protocol::process::{ProcessParams, ReadParams, StartParams, WriteParams};
use crate::protocol::{RequestId, code, encode_notification, encode_request, method};
use crate::{ExecutorError, Result};

pub(crate) type Token = u64;

/// The recipient of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    Answer(Token),
    Start(String, Token),
    Write(String),
    /// None; this process's stdin ends after its writes.
    Close(String),
    /// The session, for missing output of this process.
    Recover(String),
    /// The session, to end this process, which may have been started.
    Undo(String),
    Fire,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(super) method: &'static str,
    pub(super) params: Box<RawValue>,
    pub(super) purpose: Purpose,
    pub(super) deadline: Option<Instant>,
    pub(super) sent: bool,
    /// It was sent again after a resume, so it may have been carried out twice.
    pub(super) repeated: bool,
}

impl Session {
    pub(crate) fn call(
        &mut self,
        now: Instant,
        method: &'static str,
        params: &impl Serialize,
        purpose: Purpose,
    ) {
        let params = match to_raw_value(params) {
            Ok(params) => params,
            Err(error) => unreachable!("parameters serialize: {error}"),
        };
        // Our daemon answers a write once there is room, which depends on the server; the
        // keep-alive watches the daemon.
        let unbounded = self.is_held_back(&purpose);
        let call = Call {
            method,
            params,
            purpose,
            deadline: (!unbounded).then(|| now + self.timing.call),
            sent: false,
            repeated: false,
        };
        if let Some(error) = &self.dead {
            let error = error.clone();
            self.conclude(call, Err(error));
            return;
        }
        if let Some(deadline) = call.deadline {
            self.due(deadline);
        }
        let id = self.next_id;
        self.next_id += 1;
        self.calls.insert(id, call);
        if self.link == LinkState::Up {
            self.transmit(now, id);
        }
    }

    pub(crate) fn start(&mut self, now: Instant, params: &StartParams, token: Token) {
        self.track(params.process_id.clone());
        let purpose = Purpose::Start(params.process_id.clone(), token);
        self.call(now, method::START, params, purpose);
    }

    /// Writes to a process. A peer that handles requests concurrently gets one write per process at
    /// a time, to keep the order.
    pub(crate) fn write(&mut self, now: Instant, params: &WriteParams) {
        let purpose = Purpose::Write(params.process_id.clone());
        self.call(now, method::WRITE, params, purpose);
    }

    /// Returns whether this is input to our daemon, which keeps the order and may refuse it for
    /// lack of room; it is then sent again.
    pub(super) fn is_held_back(&self, purpose: &Purpose) -> bool {
        self.is_extended() && matches!(purpose, Purpose::Write(_) | Purpose::Close(_))
    }

    pub(crate) fn abandon(&mut self, now: Instant, process_id: &str) {
        self.tracks.remove(process_id);
        let start = self.calls.iter().find_map(|(id, call)| {
            let it = matches!(&call.purpose, Purpose::Start(started, _) if started == process_id);
            it.then_some(*id)
        });
        // After a resume it would be started after its own end.
        if let Some(call) = start.and_then(|id| self.calls.remove(&id)) {
            let sent = call.sent;
            let abandoned = ExecutorError::lost("its start was abandoned");
            self.conclude(call, Err(abandoned));
            if !sent {
                return;
            }
        }
        self.terminate(now, process_id.to_owned());
    }

    pub(crate) fn terminate(&mut self, now: Instant, process_id: String) {
        let purpose = Purpose::Undo(process_id.clone());
        let params = ProcessParams { process_id };
        self.call(now, method::TERMINATE, &params, purpose);
    }

    /// Handles a refused request. If it may be a repeated start, the first one may have been
    /// carried out.
    pub(super) fn refuse(&mut self, now: Instant, call: Call, error: ExecutorError) {
        let started = match &call.purpose {
            Purpose::Start(process_id, _) => Some(process_id.clone()),
            _ => None,
        };
        let repeated = call.repeated;
        self.conclude(call, Err(error));
        if let Some(process_id) = started {
            self.tracks.remove(&process_id);
            if repeated {
                self.abandon(now, &process_id);
            }
        }
    }

    pub(crate) fn consumed(&mut self, process_id: &str, stdout: u64, stderr: u64) {
        if let Some(track) = self.tracks.get_mut(process_id) {
            track.consumed = (stdout, stderr);
        }
        if self.link == LinkState::Up && self.is_extended() {
            self.acknowledge(process_id);
        }
    }

    pub(crate) fn lag(&mut self, now: Instant, process_id: &str, lagging: bool) {
        let Some(track) = self.tracks.get_mut(process_id) else {
            return;
        };
        let caught_up = track.lagging && !lagging;
        track.lagging = lagging;
        if caught_up {
            self.recover(now, process_id);
        }
    }

    /// Returns whether a request other than input is in flight; input is answered when the peer has
    /// room.
    pub(crate) fn has_calls(&self) -> bool {
        let is_input = |call: &Call| matches!(call.method, method::WRITE | method::CLOSE_STDIN);
        self.calls.values().any(|call| !is_input(call))
    }

    /// Tells the peer that it need not wait for the lease.
    pub(crate) fn end(&mut self) {
        if self.link == LinkState::Up && self.is_extended() {
            let frame = encode_notification(method::END, &serde_json::Map::new());
            self.effects.push_back(Effect::Send(frame));
        }
    }

    pub(super) fn acknowledge(&mut self, process_id: &str) {
        let Some(track) = self.tracks.get_mut(process_id) else {
            return;
        };
        track.unacknowledged = 0;
        let params = AckParams {
            process_id: process_id.to_owned(),
            seq: track.order.last(),
            stdout: track.consumed.0,
            stderr: track.consumed.1,
        };
        let frame = encode_notification(method::ACK, &params);
        self.effects.push_back(Effect::Send(frame));
    }

    /// Tells our daemon to drop the output of a process without a reader.
    pub(super) fn decline(&mut self, process_id: &str, seq: Option<u64>) {
        if let (Some(seq), true) = (seq, self.is_extended()) {
            let params = AckParams {
                process_id: process_id.to_owned(),
                seq,
                stdout: u64::MAX,
                stderr: u64::MAX,
            };
            let frame = encode_notification(method::ACK, &params);
            self.effects.push_back(Effect::Send(frame));
        }
    }

    pub(super) fn recover(&mut self, now: Instant, process_id: &str) {
        const AT_ONCE: u64 = 512 * 1024;
        let Some(track) = self.tracks.get_mut(process_id) else {
            return;
        };
        if track.recovering || track.lagging || track.order.is_closed() {
            return;
        }
        track.recovering = true;
        let params = ReadParams {
            process_id: process_id.to_owned(),
            after_seq: Some(track.order.last()),
            max_bytes: Some(AT_ONCE),
            // Old servers handle one request at a time and must not wait.
            wait_ms: Some(0),
        };
        let purpose = Purpose::Recover(process_id.to_owned());
        self.call(now, method::READ, &params, purpose);
    }

    pub(super) fn transmit(&mut self, now: Instant, id: i64) {
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        call.repeated = call.sent;
        call.sent = true;
        let frame = encode_request(&RequestId::Number(id), call.method, &call.params);
        let most = self.lifecycle.as_ref().and_then(|l| l.max_frame);
        if let Some(most) = most.filter(|most| frame.len() as u64 > *most)
            && let Some(call) = self.calls.remove(&id)
        {
            self.too_large(now, call, frame.len(), &format!("{most} bytes at most"));
            return;
        }
        self.effects.push_back(Effect::Send(frame));
    }

    pub(super) fn too_large(&mut self, now: Instant, call: Call, size: usize, takes: &str) {
        let refused = ExecutorError::Refused {
            method: call.method,
            code: code::LIMIT,
            message: format!("the request has {size} bytes, and the executor takes {takes}"),
            kind: Some("limit".to_owned()),
            searched: Vec::new(),
        };
        self.refuse(now, call, refused);
    }

    /// Fails overdue requests. Returns `true` if a link that looks alive is stuck on one, so that a
    /// new link may help.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let overdue: Vec<i64> = self
            .calls
            .iter()
            .filter(|(_, call)| call.deadline.is_some_and(|deadline| deadline <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in &overdue {
            let Some(mut call) = self.calls.remove(id) else {
                continue;
            };
            let undoes = matches!(call.purpose, Purpose::Undo(_));
            match &call.purpose {
                // An undo is retried only here; input is held back by our daemon.
                purpose if undoes || self.is_held_back(purpose) => {
                    call.deadline = undoes.then(|| now + self.timing.call);
                    if let Some(next) = call.deadline {
                        self.due(next);
                    }
                    self.calls.insert(*id, call);
                    if self.link == LinkState::Up {
                        self.transmit(now, *id);
                    }
                }
                Purpose::Start(process_id, _) => {
                    let process_id = process_id.clone();
                    self.time_out(call);
                    self.abandon(now, &process_id);
                }
                Purpose::Recover(process_id) => {
                    let process_id = process_id.clone();
                    let error = self.overdue(&call);
                    self.give_up(now, &process_id, error);
                }
                _ => self.time_out(call),
            }
        }
        !overdue.is_empty()
    }

    fn time_out(&mut self, call: Call) {
        let error = self.overdue(&call);
        self.conclude(call, Err(error));
    }

    fn overdue(&self, call: &Call) -> ExecutorError {
        ExecutorError::Timeout {
            method: call.method,
            after: self.timing.call,
        }
    }

    pub(super) fn conclude(&mut self, call: Call, outcome: Result<String>) {
        match call.purpose {
            Purpose::Answer(token) | Purpose::Start(_, token) => {
                self.effects.push_back(Effect::Answered(token, outcome));
            }
            Purpose::Write(process_id) => {
                let outcome = outcome.and_then(|result| parse(call.method, &result));
                let status = outcome.map(|r: crate::protocol::process::WriteResult| r.status);
                self.effects.push_back(Effect::Written(process_id, status));
            }
            Purpose::Recover(process_id) => {
                if let Err(error) = outcome {
                    self.fail_process(&process_id, error);
                }
            }
            Purpose::Undo(_) | Purpose::Close(_) | Purpose::Fire => {}
        }
    }

    pub(super) fn fail_process(&mut self, process_id: &str, error: ExecutorError) {
        if self.tracks.remove(process_id).is_some() {
            let failed = Effect::Failed(process_id.to_owned(), error);
            self.effects.push_back(failed);
        }
    }
}

pub(crate) fn parse<T: serde::de::DeserializeOwned>(
    method: &'static str,
    result: &str,
) -> Result<T> {
    serde_json::from_str(result).map_err(|error| ExecutorError::Malformed {
        method,
        problem: error.to_string(),
    })
}
