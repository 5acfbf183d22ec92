//! The control socket, and the queue of reports.

use crate::protocol::{CONTROL_FD, MESSAGE_MAX, Report, Request};
use crate::sys::{self, Errno, Fd, PollFd};

/// Capacity of the queue: each kind of report is sent at most once.
const OWED_MAX: usize = 4;

pub(crate) struct Control {
    /// `None` once the other end is closed.
    socket: Option<Fd>,
    is_deaf: bool,
    owed: [Option<Report<'static>>; OWED_MAX],
}

pub(crate) enum Received {
    Request(Request),
    Nothing,
    /// The host has closed its sending half but still reads: an order to kill without room.
    Muted,
    Gone,
}

impl Control {
    pub(crate) fn inherited() -> Option<Self> {
        sys::inherited(CONTROL_FD).map(|socket| Self {
            socket: Some(socket),
            is_deaf: false,
            owed: [const { None }; OWED_MAX],
        })
    }

    /// Returns the events to poll for. A closed half is always readable and not polled; POLLHUP is
    /// always reported.
    pub(crate) fn events(&self) -> PollFd {
        let all = PollFd::readable(self.socket.as_ref()).or_writable(self.owes());
        if self.is_deaf { all.not_readable() } else { all }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.socket.is_none()
    }

    pub(crate) fn close(&mut self) {
        self.socket = None;
        self.owed = [const { None }; OWED_MAX];
    }

    pub(crate) fn owe(&mut self, report: Report<'static>) {
        if self.socket.is_some()
            && let Some(free) = self.owed.iter_mut().find(|owed| owed.is_none())
        {
            *free = Some(report);
            self.flush();
        }
    }

    pub(crate) fn owes(&self) -> bool {
        self.owed.iter().any(Option::is_some)
    }

    pub(crate) fn flush(&mut self) {
        while let Some(report) = self.owed[0] {
            match self.send(report) {
                Ok(()) => {
                    self.owed.rotate_left(1);
                    self.owed[OWED_MAX - 1] = None;
                }
                Err(Errno::EAGAIN | Errno::ENOMEM | Errno::ENOBUFS) => return,
                Err(_) => return self.close(),
            }
        }
    }

    pub(crate) fn send(&self, report: Report<'_>) -> sys::Result<()> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        let mut buffer = [0; MESSAGE_MAX];
        let len = report.encode(&mut buffer);
        sys::send(socket, buffer.get(..len).unwrap_or_default()).map(|_| ())
    }

    /// Returns the next request. The end of the socket is returned once.
    pub(crate) fn receive(&mut self) -> Received {
        let Some(socket) = self.socket.as_ref().filter(|_| !self.is_deaf) else {
            return Received::Nothing;
        };
        let mut message = [0; 4];
        match sys::recv(socket, &mut message) {
            Err(Errno::EAGAIN) => Received::Nothing,
            // The host may still read: it closes its half when its queue of requests is full.
            Ok(0) | Err(_) => {
                self.is_deaf = true;
                self.how_it_ended()
            }
            // Unknown requests are ignored: both sides are built from the same source.
            Ok(len) => message
                .get(..len)
                .and_then(Request::decode)
                .map_or(Received::Nothing, Received::Request),
        }
    }

    /// Distinguishes a half-close from the host's death, which closes both halves at once.
    fn how_it_ended(&self) -> Received {
        let mut fds = [PollFd::readable(self.socket.as_ref()).not_readable()];
        sys::poll(&mut fds, Some(0));
        if fds[0].hung_up() { Received::Gone } else { Received::Muted }
    }
}
