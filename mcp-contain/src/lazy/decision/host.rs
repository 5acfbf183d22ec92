//! Decides on lines of the host.

use std::rc::Rc;

use super::events::{Action, FromHost, Key, Method, Request};
use super::flight::{KEPT, Pending, REQUESTS};
use super::{Handshake, Phase, Relay, error};
use crate::lazy::line::Id;

const NOTHING: &[u8] = b"{\"result\":{}}";

impl Relay {
    pub(super) fn host(&mut self, line: &[u8], what: FromHost) {
        match what {
            FromHost::Request(request) => self.request(line, request),
            FromHost::Initialized => {
                self.initialized = Some(line.into());
                if self.passes() || self.holds_handshake {
                    self.pass_or_hold(line);
                }
            }
            FromHost::Cancelled(id) => {
                self.flight.cancel(&id);
                // The server may be working on it.
                self.used = self.now;
                self.pass_or_hold(line);
            }
            FromHost::Notification => self.pass_or_hold(line),
            FromHost::Response(id) => {
                // Not to a server that has not asked.
                if self.asked.remove(&id).is_some_and(|asked| !asked.is_over) {
                    self.used = self.now;
                    self.todo.push(Action::Pass);
                }
            }
            FromHost::Batch => {
                self.is_legacy = true;
                self.wake_for(line);
                self.is_kept = true;
            }
            FromHost::Other => self.wake_for(line),
        }
    }

    fn request(&mut self, line: &[u8], mut request: Request) {
        let method = request.method;
        self.is_legacy |= !request.is_modern && method != Method::Discover;
        let kept: Rc<[u8]> = match method {
            Method::Initialize | Method::SetLevel { .. } => line.into(),
            // A line that is too long to be remembered is handled like any other request.
            Method::List(_) | Method::Discover if line.len() <= KEPT.bytes => line.into(),
            _ => Rc::from([]),
        };
        request.key = request.key.filter(|_| !kept.is_empty());
        // Only if no earlier line waits: the answer may be given at once.
        let is_quiet = self.policy.lazy
            && self.held.is_empty()
            && !self.is_leaving
            && matches!(
                self.phase,
                Phase::Asleep | Phase::Ending | Phase::Waiting(_)
            );
        if is_quiet && self.is_answered(&request, &kept) {
            return;
        }
        let Request { id, text, key, .. } = request;
        let pending = Pending {
            id: id.clone(),
            text,
            key,
            method,
            line: Rc::clone(&kept),
        };
        self.has_refused = !self.flight.has_room(&pending);
        if self.has_refused {
            let (number, size) = (REQUESTS.number, REQUESTS.bytes >> 20);
            let why = format!(
                "{number} requests, or {size} MiB of them, have no answer yet: this one was not passed on"
            );
            let refusal = error(&pending.text, &why);
            return self.todo.push(Action::ToHost(refusal));
        }
        if method != Method::Ping {
            self.used = self.now;
        }
        match method {
            Method::Initialize => {
                self.begin_handshake(&id, &kept, key);
                self.holds_handshake = true;
            }
            Method::SetLevel { .. } => self.level = Some((id, kept)),
            _ => {}
        }
        self.doubted();
        self.flight.begin(pending);
        self.wake_for(line);
        self.is_kept |= method == Method::Lasting;
    }

    fn is_answered(&mut self, request: &Request, line: &Rc<[u8]>) -> bool {
        let (id, text) = (&request.id, &request.text);
        let has_logging = self.handshake.as_ref().is_some_and(|it| it.has_logging);
        match (request.method, &request.cached) {
            (Method::Ping, _) if self.is_legacy => self.answer(text, NOTHING),
            // The level is set again at every start of the server.
            (Method::SetLevel { is_valid: true }, _) if has_logging => {
                self.answer(text, NOTHING);
                self.level = Some((id.clone(), Rc::clone(line)));
            }
            (Method::Initialize, Some(answer)) => {
                self.begin_handshake(id, line, request.key).learn(answer);
                self.answer(text, &answer.text);
            }
            (method @ (Method::List(_) | Method::Discover), Some(answer)) => {
                if let Some(key) = request.key {
                    self.remember(key, (method, id.clone(), Rc::clone(line), answer.digest));
                }
                self.answer(text, &answer.text);
            }
            _ => return false,
        }
        true
    }

    fn begin_handshake(&mut self, id: &Id, line: &Rc<[u8]>, key: Option<Key>) -> &mut Handshake {
        self.initialized = None;
        self.handshake.insert(Handshake {
            id: id.clone(),
            line: Rc::clone(line),
            key,
            version: None,
            has_logging: false,
        })
    }

    fn wake_for(&mut self, line: &[u8]) {
        if self.passes() {
            self.holds_handshake = false;
            return self.todo.push(Action::Pass);
        }
        self.held.extend_from_slice(line);
        if self.phase == Phase::Asleep {
            self.start();
        }
    }

    fn pass_or_hold(&mut self, line: &[u8]) {
        if self.passes() {
            self.todo.push(Action::Pass);
        } else if self.phase == Phase::Starting || !self.held.is_empty() {
            self.held.extend_from_slice(line);
        }
    }
}
