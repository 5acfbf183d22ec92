//! Moves bytes between descriptors and buffers.

use super::Edge;
use super::buffer::Lines;
use super::stream::is_patience;
use crate::lazy::decision::events::Event;

impl Edge {
    pub(super) fn read_host(&mut self) {
        let Some(input) = &mut self.input else { return };
        match input.read(self.from_host.buffer.room()) {
            Ok(0) => self.input = None,
            Err(error) if !is_patience(&error) => self.input = None,
            Ok(_) | Err(_) => {}
        }
    }

    pub(super) fn read_server(&mut self) -> bool {
        let (now, grace) = (self.now(), self.policy.grace);
        let Some(server) = &mut self.server else {
            return false;
        };
        let Some(output) = &mut server.output else {
            return false;
        };
        match output.read(server.from_it.buffer.room()) {
            Ok(1..) => {
                if server.is_muted {
                    server.from_it = Lines::default();
                }
                true
            }
            // Another process has it open.
            Err(error) if is_patience(&error) => false,
            Ok(_) | Err(_) => {
                server.output = None;
                server.is_silent = true;
                // A server without output is useless.
                server.close(now, grace);
                false
            }
        }
    }

    pub(super) fn write_server(&mut self) {
        let Some(server) = &mut self.server else {
            return;
        };
        if server.write().is_err_and(|error| !is_patience(&error)) {
            server.to_it.clear();
            server.input = None;
            if server.ended.is_none() {
                self.decide(Event::InputClosed);
            }
        }
    }

    pub(super) fn write_host(&mut self) {
        let Some(output) = &mut self.output else {
            return;
        };
        match output.write(self.to_host.bytes()) {
            Ok(len) => {
                self.to_host.consume(len);
                // It reads, so its time is extended.
                let until = self.now().saturating_add(self.patience());
                self.flush = self.flush.map(|_| until);
                self.hung_up = self.hung_up.map(|_| self.grace_end());
            }
            Err(error) if is_patience(&error) => {}
            Err(_) => self.deaf_host(),
        }
    }

    /// Drops the streams of a host that does not read any more.
    pub(super) fn deaf_host(&mut self) {
        self.output = None;
        self.input = None;
        self.from_host = Lines::default();
    }
}
