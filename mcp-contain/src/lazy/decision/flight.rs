//! Bounds on a relay's memory, and the host's requests in flight.

use std::rc::Rc;

use super::events::{Key, Method};
use crate::lazy::line::Id;

#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) number: usize,
    pub(super) bytes: usize,
}

pub(super) const REQUESTS: Bound = Bound {
    number: 4096,
    bytes: 4 << 20,
};

pub(super) const KEPT: Bound = Bound {
    number: 256,
    bytes: 1 << 20,
};

impl Bound {
    /// Returns whether one more item of this size is allowed beside those of these sizes.
    pub(super) fn allows(self, sizes: impl ExactSizeIterator<Item = usize>, size: usize) -> bool {
        sizes.len() < self.number && sizes.sum::<usize>().saturating_add(size) <= self.bytes
    }
}

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) id: Id,
    pub(super) text: Box<[u8]>,
    pub(super) key: Option<Key>,
    pub(super) method: Method,
    /// The request, if it may be sent again; else empty.
    pub(super) line: Rc<[u8]>,
}

impl Pending {
    fn size(&self) -> usize {
        self.text.len().saturating_add(self.line.len())
    }

    fn is_handshake(&self) -> bool {
        self.method == Method::Initialize
    }
}

/// All requests in flight, in their order. A concurrently reused ID counts as two requests.
#[derive(Debug, Default)]
pub(super) struct Flight(Vec<Pending>);

impl Flight {
    pub(super) fn has_room(&self, pending: &Pending) -> bool {
        REQUESTS.allows(self.0.iter().map(Pending::size), pending.size())
    }

    pub(super) fn begin(&mut self, pending: Pending) {
        self.0.push(pending);
    }

    pub(super) fn end(&mut self, id: &Id) -> Option<Pending> {
        let at = self.0.iter().position(|known| known.id == *id)?;
        Some(self.0.remove(at))
    }

    /// Removes a cancelled request; an `initialize` cannot be cancelled.
    pub(super) fn cancel(&mut self, id: &Id) {
        if self.first(id).is_some_and(|first| !first.is_handshake()) {
            self.end(id);
        }
    }

    pub(super) fn is_cacheable(&self, id: &Id) -> bool {
        let first = self.first(id);
        first.is_some_and(|first| first.key.is_some() || first.is_handshake())
    }

    pub(super) fn has(&self, id: &Id) -> bool {
        self.first(id).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Pending> {
        self.0.drain(..)
    }

    fn first(&self, id: &Id) -> Option<&Pending> {
        self.0.iter().find(|known| known.id == *id)
    }
}
