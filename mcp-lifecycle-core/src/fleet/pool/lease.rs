//! [`Lease`]: the right to use a server for a while.

use std::fmt;
use std::ops::Deref;

use super::key::PoolKey;
use crate::client::peer::LifecyclePeer;
use crate::fleet::engine::lease::Grant;

/// The right to use a server for a while. Dereferences to its
/// [`LifecyclePeer`] for calls.
///
/// A peer cloned out of the lease keeps nothing alive; a call in flight holds
/// the idle clock, also after the lease was returned.
///
/// # Drop
///
/// Dropping the lease returns it. The server stays for its idle time.
#[must_use = "dropping the lease returns it"]
pub struct Lease {
    grant: Grant<PoolKey>,
}

impl Lease {
    pub(super) fn new(grant: Grant<PoolKey>) -> Self {
        Self { grant }
    }

    /// Returns the lease. Doing it again, or dropping the lease afterwards, does
    /// nothing more.
    pub fn release(&mut self) {
        self.grant.give_back();
    }

    /// The number of this process among those of its server, from 1: it differs from an earlier
    /// lease's when the server was started again in between.
    pub fn generation(&self) -> u64 {
        self.grant.generation()
    }

    /// The calls of the server, for tasks that use it without holding it.
    pub fn peer(&self) -> &LifecyclePeer {
        &self.grant.peer
    }
}

impl Deref for Lease {
    type Target = LifecyclePeer;

    fn deref(&self) -> &LifecyclePeer {
        &self.grant.peer
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("server", &self.server())
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}
