use std::time::{Duration, Instant};

use bytes::Bytes;

use super::link::refused;
use super::{Effect, LinkState, ProcessEvent, Purpose, Recovery, Session};
use crate::protocol::extension::{EndedNotification, GoneNotification};
use crate::protocol::process::{
    ClosedNotification, ExitedNotification, OutputNotification, ReadResult,
};
use crate::protocol::{
    MalformedMessage, Message, Params, RawOutput, RequestId, RpcError, code, encode_error, method,
};
use crate::{ExecutorError, Result};

const SHARED: usize = 16 * 1024;

/// Longest time for a process to start at a peer that has lost its link.
const STARTING: Duration = Duration::from_secs(1);

/// Maximum number of unacknowledged events. A daemon stops sending at 4096.
const ACKNOWLEDGED_AT_ONCE: u32 = 512;

impl Session {
    /// Handles a frame. Unknown content is ignored and traced, since a newer peer may send more.
    pub(crate) fn frame(&mut self, now: Instant, frame: &Bytes) {
        self.heard = now;
        self.progress();
        let is_raw = self.lifecycle.as_ref().is_some_and(|l| l.raw_output);
        let outcome = match RawOutput::parse(frame) {
            Some(raw) if is_raw => raw.map(|raw| {
                // A small piece would keep the whole read buffer alive.
                let bytes = match raw.bytes.len() {
                    0..SHARED => Bytes::copy_from_slice(&raw.bytes),
                    _ => raw.bytes,
                };
                let event = ProcessEvent::Output(raw.stream, bytes);
                self.event(now, raw.process_id, Some(raw.seq), event);
            }),
            _ => Message::parse(frame).and_then(|message| self.message(now, message)),
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, "passed over a message of the executor");
        }
    }

    fn message(&mut self, now: Instant, message: Message<'_>) -> Result<(), MalformedMessage> {
        match message {
            Message::Notification { method, params } => self.notification(now, &method, params),
            Message::Response { id, result } => {
                self.answer(now, &id, Ok(result));
                Ok(())
            }
            Message::Error { id, error } => match id {
                Some(id) if id != RequestId::Number(-1) => {
                    self.answer(now, &id, Err(error));
                    Ok(())
                }
                // It refers to a frame of ours that the peer could not parse.
                _ => Err(MalformedMessage(error.to_string())),
            },
            Message::Request { id, method, .. } => {
                let error = format!("this client does not serve `{method}`");
                let error = RpcError::new(code::METHOD_NOT_FOUND, error);
                let frame = encode_error(Some(&id), &error);
                self.effects.push_back(Effect::Send(frame));
                Ok(())
            }
        }
    }

    fn notification(
        &mut self,
        now: Instant,
        method: &str,
        params: Params<'_>,
    ) -> Result<(), MalformedMessage> {
        match method {
            method::OUTPUT => {
                let it: OutputNotification = params.parse()?;
                let event = ProcessEvent::Output(it.stream, it.chunk.0);
                self.event(now, &it.process_id, Some(it.seq), event);
            }
            method::EXITED => {
                let it: ExitedNotification = params.parse()?;
                let event = ProcessEvent::Exited(it.exit_code);
                self.event(now, &it.process_id, Some(it.seq), event);
            }
            method::CLOSED => {
                let it: ClosedNotification = params.parse()?;
                self.event(now, &it.process_id, it.seq, ProcessEvent::Closed);
            }
            method::GONE => {
                let it: GoneNotification = params.parse()?;
                let (id, seq) = (it.process_id.clone(), it.seq);
                self.event(now, &id, Some(seq), ProcessEvent::Gone(it));
            }
            method::ENDED if self.is_extended() => {
                let it: EndedNotification = params.parse()?;
                self.effects.push_back(Effect::Disconnect);
                self.die(ExecutorError::SessionOver {
                    reason: "the executor has ended the session and its processes".to_owned(),
                    unproven: it.unproven,
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn event(&mut self, now: Instant, process_id: &str, seq: Option<u64>, event: ProcessEvent) {
        let Some(track) = self.tracks.get_mut(process_id) else {
            self.decline(process_id, seq);
            return;
        };
        if track.lagging {
            return;
        }
        track.unacknowledged += 1;
        let many = track.unacknowledged >= ACKNOWLEDGED_AT_ONCE;
        let effects = &mut self.effects;
        let mut is_last = false;
        let in_reason = track.order.accept(seq, event, &mut |event| {
            is_last |= matches!(event, ProcessEvent::Closed | ProcessEvent::Gone(_));
            effects.push_back(Effect::Event(process_id.to_owned(), event));
        });
        if !in_reason {
            let lost = ExecutorError::lost("too many events arrived out of order");
            self.give_up(now, process_id, lost);
            return;
        }
        if !track.order.has_hole() {
            track.hole_since = None;
        } else if track.hole_since.is_none() {
            track.hole_since = Some(now);
            let when = now + self.hole();
            self.due(when);
        }
        if (is_last || many) && self.is_extended() {
            // The daemon keeps everything until it is acknowledged.
            self.acknowledge(process_id);
        }
    }

    fn answer(&mut self, now: Instant, id: &RequestId, answer: Result<Params<'_>, RpcError>) {
        let RequestId::Number(id) = *id else {
            return;
        };
        if let LinkState::Hello { id: hello, .. } = self.link
            && hello == id
        {
            self.hello_answered(now, answer);
            return;
        }
        let Some(mut call) = self.calls.remove(&id) else {
            return;
        };
        let outcome: Result<String> = match answer {
            Ok(result) => Ok(result.text().to_owned()),
            Err(error) if call.repeated && is_duplicate_start(call.method, &error) => {
                // codex (0.171) leaves it "starting" for ever if the link broke meanwhile: is it?
                if let Purpose::Start(process_id, _) = &call.purpose
                    && let Some(track) = self.tracks.get_mut(process_id)
                {
                    track.hole_since = Some(now + STARTING);
                    self.due(now + STARTING + self.hole());
                }
                Ok("{}".to_owned())
            }
            // The peer is closing the link: the resume repeats the call.
            Err(error) if error.code == code::TRANSPORT_CLOSED && self.session_id.is_some() => {
                self.calls.insert(id, call);
                return;
            }
            // Sent again when it is overdue: this is the only retry.
            Err(error) if matches!(call.purpose, Purpose::Undo(_)) && error.code == code::LIMIT => {
                self.calls.insert(id, call);
                return;
            }
            Err(error) if error.code == code::LIMIT && self.is_held_back(&call.purpose) => {
                let again = now + self.timing.retry;
                call.deadline = Some(again);
                self.calls.insert(id, call);
                self.due(again);
                return;
            }
            Err(error) => Err(refused(call.method, error)),
        };
        match (&call.purpose, outcome) {
            (Purpose::Recover(process_id), result) => {
                let process_id = process_id.clone();
                match result {
                    Ok(result) => self.read(now, &process_id, &result),
                    Err(error) => self.give_up(now, &process_id, error),
                }
            }
            (_, Err(error)) => self.refuse(now, call, error),
            (_, outcome) => self.conclude(call, outcome),
        }
    }

    fn read(&mut self, now: Instant, process_id: &str, result: &str) {
        let Some(track) = self.tracks.get_mut(process_id) else {
            return;
        };
        track.recovering = false;
        let read: ReadResult = match super::calls::parse(method::READ, result) {
            Ok(read) => read,
            Err(error) => return self.give_up(now, process_id, error),
        };
        if let Some(failure) = read.failure.clone() {
            return self.give_up(now, process_id, ExecutorError::lost(failure));
        }
        let effects = &mut self.effects;
        let recovery = track.order.recovered(read, &mut |event| {
            effects.push_back(Effect::Event(process_id.to_owned(), event));
        });
        match recovery {
            Recovery::More => self.recover(now, process_id),
            Recovery::Complete => track.gap = None,
            // An event may have its number before a read shows its state.
            Recovery::Lost { from, to } if track.gap.replace((from, to)) != Some((from, to)) => {
                track.hole_since = Some(now);
                let when = now + self.hole();
                self.due(when);
            }
            Recovery::Lost { from, to } => {
                let lost = format!("the executor has dropped output {from} to {to}");
                self.give_up(now, process_id, ExecutorError::lost(lost));
            }
        }
    }

    /// Ends a process with missing output, which is useless.
    pub(super) fn give_up(&mut self, now: Instant, process_id: &str, error: ExecutorError) {
        self.fail_process(process_id, error);
        self.terminate(now, process_id.to_owned());
    }
}

/// Returns whether a repeated start failed because the first one was carried out. IDs are unique,
/// so it is the same process.
fn is_duplicate_start(called: &str, error: &RpcError) -> bool {
    called == method::START
        && error.code == code::INVALID_REQUEST
        && error.message.contains("already exists")
}
