//! The control socket, and the reports that are owed on it.

use crate::protocol::{CONTROL_FD, MESSAGE_MAX, Report, Request};
use crate::sys::{self, Errno, Fd, Nanos, Order, PollFd};

/// Reports that can be owed at once: each kind is sent at most once.
const OWED_MAX: usize = 4;

pub(crate) struct Control {
    /// `None` once the other end is closed.
    socket: Option<Fd>,
    /// The host will not ask for anything any more.
    is_deaf: bool,
    owed: [Option<Report<'static>>; OWED_MAX],
}

/// A message of the host.
pub(crate) enum Received {
    Request(Request),
    /// Nothing now.
    Nothing,
    /// It will not say anything any more, and listens: as good as an order to kill, which its queue had no room for.
    Muted,
    /// It is gone.
    Gone,
}

/// A message of the host to a spare guardian.
pub(crate) enum Ordered {
    Order(Order),
    /// Nothing now.
    Nothing,
    /// Anything else, and that it is gone: there will be no order.
    Unwanted,
}

impl Control {
    /// Takes the socket over from the host.
    pub(crate) fn inherited() -> Option<Self> {
        sys::inherited(CONTROL_FD).map(|socket| Self {
            socket: Some(socket),
            is_deaf: false,
            owed: [const { None }; OWED_MAX],
        })
    }

    /// The events to wait for. A half that is closed is always readable, and is not waited for; both closed is reported unasked.
    pub(crate) fn events(&self) -> PollFd {
        let all = PollFd::readable(self.socket.as_ref()).or_writable(self.owes());
        if self.is_deaf { all.not_readable() } else { all }
    }

    /// Whether nobody can be told anything any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.socket.is_none()
    }

    /// Hangs up: there is nobody to report to.
    pub(crate) fn close(&mut self) {
        self.socket = None;
        self.owed = [const { None }; OWED_MAX];
    }

    /// Sends `report`, now or when there is room.
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

    /// Sends what is owed, in order, as far as there is room.
    pub(crate) fn flush(&mut self) {
        while let Some(report) = self.owed[0] {
            match self.send(report) {
                Ok(()) => {
                    self.owed.rotate_left(1);
                    self.owed[OWED_MAX - 1] = None;
                }
                // Owed until there is room, or memory.
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

    /// The next request. The end of the socket is said once.
    pub(crate) fn receive(&mut self) -> Received {
        let Some(socket) = self.socket.as_ref().filter(|_| !self.is_deaf) else {
            return Received::Nothing;
        };
        let mut message = [0; 4];
        match sys::recv(socket, &mut message) {
            Ok(0) => {
                // The host may still listen: a full queue of requests is answered by closing that half.
                self.is_deaf = true;
                self.how_it_ended()
            }
            // What is not a request is ignored: both sides are built from one source.
            Ok(len) => message
                .get(..len)
                .and_then(Request::decode)
                .map_or(Received::Nothing, Received::Request),
            Err(Errno::EAGAIN) => Received::Nothing,
            Err(_) => {
                self.is_deaf = true;
                self.how_it_ended()
            }
        }
    }

    /// The order that a spare guardian waits for.
    pub(crate) fn receive_order(&mut self) -> Ordered {
        match self.socket.as_ref().map(sys::receive_order) {
            Some(Ok(Some(order))) => Ordered::Order(order),
            Some(Err(Errno::EAGAIN)) => Ordered::Nothing,
            _ => Ordered::Unwanted,
        }
    }

    /// A host that has closed its half only is there; where the host has died, both were closed at once.
    fn how_it_ended(&self) -> Received {
        let mut fds = [PollFd::readable(self.socket.as_ref()).not_readable()];
        sys::poll(&mut fds, Some(Nanos(0)));
        if fds[0].hung_up() { Received::Gone } else { Received::Muted }
    }
}
