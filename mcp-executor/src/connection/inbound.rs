use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::RuntimeFlavor;

use super::super::dispatch;
use super::super::limits::MOST_NAME;
use super::super::session::AnswerPriority;
use super::{Connection, PING, State};
use crate::link::Incoming;
use crate::protocol::{Message, RequestId, RpcError, code, encode_error, encode_result, method};

impl Connection {
    /// Does the same as [`incoming`](Self::incoming), but a large frame does not block other tasks.
    pub(super) fn incoming_apart(&mut self, incoming: Incoming) {
        let large = matches!(&incoming, Incoming::Frame(frame) if frame.len() > 256 * 1024);
        let flavor = tokio::runtime::Handle::current().runtime_flavor();
        if !large || flavor == RuntimeFlavor::CurrentThread {
            return self.incoming(incoming);
        }
        tokio::task::block_in_place(|| self.incoming(incoming));
    }

    fn incoming(&mut self, incoming: Incoming) {
        if let Some((session, generation)) = self.session() {
            session.heard();
            session.is_awake(generation);
        }
        match incoming {
            Incoming::Alive => return,
            Incoming::Frame(frame) => match Message::parse(&frame) {
                Ok(message) => self.message(message),
                Err(error) => self.refuse(None, &error.to_string()),
            },
            Incoming::TooLarge(size) => {
                let limit = self.shared.limits.max_frame;
                let text = format!("a frame of {size} bytes is over the limit of {limit}");
                self.refuse(None, &text);
            }
        }
        self.intake.done();
    }

    fn message(&mut self, message: Message<'_>) {
        match (message, &self.state) {
            (
                Message::Request {
                    id: RequestId::Text(id),
                    ..
                },
                _,
            ) if id.len() > MOST_NAME => {
                let text = format!("an id of {} bytes, of at most {MOST_NAME}", id.len());
                self.refuse(None, &text);
            }
            (Message::Request { id, method, params }, State::Open(session, generation)) => {
                let (session, generation) = (Arc::clone(session), *generation);
                let (shared, frame) = (&self.shared, &mut self.intake.frame);
                dispatch::request(shared, &session, generation, frame, id, &method, params);
            }
            (Message::Request { id, method, params }, State::Unknown)
                if method == method::INITIALIZE =>
            {
                match self.initialize(params) {
                    Ok(result) => self.send(encode_result(&id, &result)),
                    Err(error) => self.send(encode_error(Some(&id), &error)),
                }
            }
            (Message::Request { id, .. }, state) => {
                let text = match state {
                    State::Unknown => "client must call initialize before using exec methods",
                    _ => "client must send initialized before using exec methods",
                };
                self.refuse(Some(&id), text);
            }
            (Message::Notification { method, .. }, State::Greeted(session, generation))
                if method == method::INITIALIZED =>
            {
                let (session, generation) = (Arc::clone(session), *generation);
                self.state = State::Open(Arc::clone(&session), generation);
                let pause = PING.min(session.lease / 3);
                self.timer.as_mut().reset((Instant::now() + pause).into());
                session.begin_sending(generation);
            }
            (
                Message::Notification { method, params },
                State::Greeted(session, _) | State::Open(session, _),
            ) => {
                let session = Arc::clone(session);
                let outcome = dispatch::notification(&self.shared, &session, &method, params);
                if let Err(error) = outcome {
                    self.refuse(None, &error.to_string());
                }
            }
            // The daemon sends no requests, so there are no responses.
            _ => {}
        }
    }

    fn refuse(&mut self, id: Option<&RequestId>, text: &str) {
        let error = RpcError::new(code::INVALID_REQUEST, text);
        self.send_answer(encode_error(id, &error), AnswerPriority::Now);
    }
}
