//! Carries out actions, the last of which is the exit of this process.

use std::process::ExitCode;
use std::time::Duration;

use super::Edge;
use super::server::{Server, UNPROVEN, signal_of};
use crate::failure::Failure;
use crate::lazy::decision::events::{Action, Event, Exit};
use crate::sys;

/// Limit of queued replies to a server that does not read them.
const REPLIES_MAX: usize = 1 << 20;

/// Minimum time for a host to read the rest.
const READING: Duration = Duration::from_secs(2);

impl Edge {
    pub(super) fn decide(&mut self, event: Event<'_>) {
        let (is_of_host, line) = match &event {
            Event::Host(line, _) => (true, *line),
            Event::Server(line, _) => (false, *line),
            _ => (false, &[][..]),
        };
        let mut failed = None;
        for action in self.relay.on(self.began.elapsed(), event) {
            match action {
                Action::Pass if is_of_host => self.write_to_server(line),
                Action::Pass => self.to_host.push(line),
                Action::ToHost(line) => self.to_host.push(&line),
                Action::ToServer(lines) => self.write_to_server(&lines),
                Action::Reply(line) => {
                    let waits = self.server.as_ref().map_or(0, |server| server.to_it.len());
                    if waits < REPLIES_MAX {
                        self.write_to_server(&line);
                    }
                }
                Action::Store(key, answer) => self.cache.store(&key, &answer),
                Action::Forget(key) => self.cache.forget(&key),
                Action::Start => match Server::start(&self.shim) {
                    Ok(server) => {
                        self.server = Some(server);
                        self.flush = None;
                        self.has_failed = false;
                    }
                    Err(error) => {
                        failed = Some(format!("the server could not be started: {error}"));
                    }
                },
                Action::Look => {
                    // A server that cannot write does not read.
                    let server = self.server.as_ref().filter(|_| self.to_host.is_empty());
                    let work = server.and_then(Server::work);
                    self.decide(Event::Looked(work));
                }
                Action::Close => self.close(false),
                Action::CloseNow => self.close(true),
                Action::Exit(exit) => self.exit = self.exit.or(Some(exit)),
            }
        }
        if let Some(why) = failed {
            Failure::wrapper(&why).say();
            self.has_failed = true;
            self.decide(Event::Gone(&why));
        }
    }

    fn write_to_server(&mut self, bytes: &[u8]) {
        if let Some(server) = &mut self.server
            && server.input.is_some()
        {
            server.to_it.push(bytes);
        }
    }

    fn close(&mut self, at_once: bool) {
        let (now, grace) = (self.now(), self.policy.grace);
        let Some(server) = &mut self.server else {
            return;
        };
        server.is_closing = true;
        if at_once {
            let is_unread = self.relay.held() > 0 || !server.to_it.is_empty();
            self.has_lost |= self.input.is_none() && is_unread;
            server.close(now, grace);
        }
    }

    pub(super) fn is_done(&mut self) -> bool {
        if self.exit.is_none() || self.server.is_some() {
            return false;
        }
        let now = self.now();
        let flush = now.saturating_add(self.patience());
        let flush = *self.flush.get_or_insert(flush);
        self.to_host.is_empty() || self.output.is_none() || flush <= now
    }

    /// Returns the time for a host to read the rest, which is not shortened by the server's grace.
    pub(super) fn patience(&self) -> Duration {
        self.policy.grace.max(READING)
    }

    /// Returns the exit code. A death by signal is repeated on this process.
    pub(super) fn leave(&self) -> ExitCode {
        // Not if the host is gone.
        if self.has_lost && self.output.is_some() {
            let grace = humantime::format_duration(self.policy.grace);
            Failure::wrapper(format_args!(
                "the last of the input is lost: the server did not read it within {grace} of the end of its host, or of what it read last"
            ))
            .say();
        }
        if self.exit == Some(Exit::Unproven) {
            // A shim with this exit code has reported the reason.
            if self.last.and_then(|status| status.code()) != Some(UNPROVEN) {
                Failure::wrapper(
                    "the shim of the server was killed, and nothing else proves its end: something of it, or its containers, may live. \
                     `mcp-contain ps` and `mcp-contain reap` find it",
                )
                .say();
            }
            return ExitCode::from(125);
        }
        let status = self.last.filter(|_| self.exit == Some(Exit::AsServer));
        if let Some(number) = status.map_or(self.killed, signal_of) {
            return sys::die_of(number);
        }
        if self.exit == Some(Exit::OtherVersion) {
            return Failure::wrapper(
                "the server speaks another protocol version than the cached one, which its host was given. The cache is \
                 renewed: start it again",
            )
            .report();
        }
        if self.has_failed {
            return ExitCode::from(125);
        }
        let code = status.map_or(Some(0), |status| status.code());
        let code = code.and_then(|code| u8::try_from(code).ok());
        ExitCode::from(code.unwrap_or(125))
    }
}
