//! The report of a server: a line of JSON at its start, and one at its end. Nothing waits for its
//! reader: a line without room is dropped.

use core::ffi::CStr;

use crate::ending::Ended;
use crate::protocol::Listing;
use crate::sys::{self, Errno, Fd};
use crate::text::Line;

/// Bytes of the server's last output on standard error.
const LAST: usize = 512;

pub(crate) struct Account {
    pub(crate) to: Fd,
    /// The beginning of each line, by the wrapper.
    pub(crate) beginning: &'static CStr,
    /// The position in standard error before the server's first output, if that is a file, which
    /// is kept open then. A copy of anything else would hide its end.
    pub(crate) log: Option<usize>,
}

impl Account {
    pub(crate) fn started(&self, leader: u32) {
        let mut line = self.line("started");
        line.key("leader").number(leader.into());
        line.key("guardian").number(sys::getpid().into());
        self.write(&mut line);
    }

    pub(crate) fn ended(&self, ended: &Ended, swept: Listing<'_>) {
        let mut line = self.line("ended");
        ended.describe(&mut line);
        line.key("stderr");
        let mut last = [0; LAST];
        match self.last(&mut last) {
            Some(last) => line.string(last),
            None => line.then("null"),
        };
        line.key("names").list(swept.processes().map(|(_, name)| name));
        self.write(&mut line);
    }

    /// Reads what the server has written last to its standard error.
    fn last<'a>(&self, buffer: &'a mut [u8; LAST]) -> Option<&'a [u8]> {
        let start = self.log?;
        let from = sys::seek_back(&sys::STDERR, 0).ok()?.saturating_sub(LAST).max(start);
        let len = sys::read_at(&sys::STDERR, buffer, from).ok()?;
        buffer.get(..len)
    }

    fn line(&self, event: &str) -> Line {
        let mut line = Line::new();
        line.then(self.beginning.to_str().unwrap_or_default());
        line.key("event").string(event.as_bytes());
        line
    }

    fn write(&self, line: &mut Line) {
        let text = line.then("}\n").bytes();
        // The wrapper has opened all but sockets so that they never block.
        if sys::send(&self.to, text) == Err(Errno::ENOTSOCK) {
            let _ = sys::write(&self.to, text);
        }
    }
}
