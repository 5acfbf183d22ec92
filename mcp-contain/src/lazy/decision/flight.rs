//! The requests of the host that have no answer yet.

use std::collections::HashMap;
use std::rc::Rc;

use super::bounds::REQUESTS;
use super::words::{Key, List};
use crate::lazy::message::Id;

/// A request that has no answer yet.
#[derive(Debug)]
pub(super) struct Pending {
    /// Its id as it was written.
    pub(super) text: Box<[u8]>,
    /// Where its answer belongs.
    pub(super) key: Option<Key>,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Initialize,
    /// With the line that asks for it.
    Discover(Rc<[u8]>),
    /// With the line that asks for it.
    List(List, Rc<[u8]>),
    Ping,
    Other,
}

impl Pending {
    /// The number of bytes that are remembered.
    fn size(&self) -> usize {
        let line = match &self.kind {
            Kind::Discover(line) | Kind::List(_, line) => line.len(),
            Kind::Initialize | Kind::Ping | Kind::Other => 0,
        };
        self.text.len().saturating_add(line)
    }
}

/// All of them. An id that is used twice at a time is two requests.
#[derive(Debug, Default)]
pub(super) struct Flight {
    by_id: HashMap<Id, Vec<Pending>>,
    number: usize,
    bytes: usize,
}

impl Flight {
    /// Returns whether this one may be remembered beside the others.
    pub(super) fn has_room(&self, pending: &Pending) -> bool {
        REQUESTS.allows(self.number, self.bytes, pending.size())
    }

    pub(super) fn begin(&mut self, id: Id, pending: Pending) {
        self.number += 1;
        self.bytes += pending.size();
        self.by_id.entry(id).or_default().push(pending);
    }

    /// Takes the oldest of this id.
    pub(super) fn end(&mut self, id: &Id) -> Option<Pending> {
        let all = self.by_id.get_mut(id)?;
        let first = (!all.is_empty()).then(|| all.remove(0));
        if all.is_empty() {
            self.by_id.remove(id);
        }
        if let Some(first) = &first {
            self.number -= 1;
            self.bytes -= first.size();
        }
        first
    }

    /// Takes one that was cancelled; an `initialize` cannot be.
    pub(super) fn cancel(&mut self, id: &Id) {
        let all = self.by_id.get(id);
        if all.is_some_and(|all| {
            !matches!(
                all.first(),
                Some(Pending {
                    kind: Kind::Initialize,
                    ..
                })
            )
        }) {
            self.end(id);
        }
    }

    pub(super) fn is_cacheable(&self, id: &Id) -> bool {
        let first = self.by_id.get(id).and_then(|all| all.first());
        first.is_some_and(|pending| {
            pending.key.is_some() || matches!(pending.kind, Kind::Initialize)
        })
    }

    pub(super) fn has(&self, id: &Id) -> bool {
        self.by_id.contains_key(id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Takes all.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Pending> {
        std::mem::take(self).by_id.into_values().flatten()
    }
}
