//! Bounds on what a relay remembers.

/// A bound by number and by bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) number: usize,
    pub(super) bytes: usize,
}

/// Bound on the requests of one side that have no answer yet.
pub(super) const REQUESTS: Bound = Bound {
    number: 4096,
    bytes: 4 << 20,
};

/// Bound on the answers that the host knows, on its subscriptions, and on the questions of servers that have ended.
pub(super) const KEPT: Bound = Bound {
    number: 256,
    bytes: 1 << 20,
};

impl Bound {
    /// Returns whether one more of this size is allowed beside so many of so many bytes.
    pub(super) fn allows(self, number: usize, bytes: usize, size: usize) -> bool {
        number < self.number && bytes.saturating_add(size) <= self.bytes
    }

    /// The same, beside those of these sizes.
    pub(super) fn allows_beside(
        self,
        sizes: impl ExactSizeIterator<Item = usize>,
        size: usize,
    ) -> bool {
        self.allows(sizes.len(), sizes.sum(), size)
    }
}
