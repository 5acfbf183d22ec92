//! Bytes between descriptors and buffers.

use super::Edge;
use super::buffer::Lines;
use super::stream::is_patience;

impl Edge {
    pub(super) fn read_host(&mut self) {
        let Some(input) = &mut self.input else { return };
        match input.read(self.from_host.buffer.room()) {
            Ok(0) => self.input = None,
            Ok(len) => self.from_host.buffer.filled(len),
            Err(error) if is_patience(&error) => {}
            Err(_) => self.input = None,
        }
    }

    /// Returns whether there may be more.
    pub(super) fn read_server(&mut self) -> bool {
        let (now, grace) = (self.now(), self.policy.grace);
        let Some(server) = &mut self.server else {
            return false;
        };
        let Some(output) = &mut server.output else {
            return false;
        };
        match output.read(server.from_it.buffer.room()) {
            Ok(len @ 1..) => {
                server.from_it.buffer.filled(len);
                if server.is_muted {
                    server.from_it = Lines::default();
                }
                true
            }
            // Somebody has it open.
            Err(error) if is_patience(&error) => false,
            Ok(_) | Err(_) => {
                server.output = None;
                server.is_silent = true;
                // One that says nothing any more is of no use.
                server.close(now, grace);
                false
            }
        }
    }

    pub(super) fn write_server(&mut self) {
        let (now, grace) = (self.now(), self.policy.grace);
        let Some(server) = &mut self.server else {
            return;
        };
        match server.write() {
            Err(error) if !is_patience(&error) => server.close(now, grace),
            _ => {}
        }
    }

    pub(super) fn write_host(&mut self) {
        let Some(output) = &mut self.output else {
            return;
        };
        match output.write(self.to_host.bytes()) {
            Ok(len) => {
                self.to_host.consume(len);
                // It reads: it has as long again.
                let now = self.now();
                let until = now.saturating_add(self.patience());
                self.flush = self.flush.map(|_| until);
                self.hung_up = self.hung_up.map(|_| now.saturating_add(self.policy.grace));
            }
            Err(error) if is_patience(&error) => {}
            Err(_) => self.deaf_host(),
        }
    }

    /// Nobody reads what is said. There is nothing to be done for such a host.
    pub(super) fn deaf_host(&mut self) {
        self.output = None;
        self.input = None;
        self.from_host = Lines::default();
    }
}
