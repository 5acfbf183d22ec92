use std::ops::Deref;

use super::scope::PoolKey;
use crate::client::LifecyclePeer;
use crate::fleet::engine::lease::Grant;
use crate::launch::macros::debug_fields;

/// The right to use a server for a while. Dereferences to its [`LifecyclePeer`] for calls, of which a
/// clone keeps nothing alive. A call in flight stops the idle clock, even after the release.
///
/// # Drop
///
/// Dropping the lease returns it. The server lives on for its idle time.
#[must_use = "dropping the lease returns it"]
pub struct Lease {
    grant: Grant<PoolKey>,
}

impl Lease {
    pub(super) fn new(grant: Grant<PoolKey>) -> Self {
        Self { grant }
    }

    /// Returns the lease. Repeated calls have no effect.
    pub fn release(&mut self) {
        self.grant.give_back();
    }

    /// Returns the number of this process among those of its server, from 1.
    pub fn generation(&self) -> u64 {
        self.grant.generation
    }

    /// Returns the server's calls, for tasks that use it without holding it.
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

debug_fields!(
    Lease,
    it {
        server: &it.server(),
        generation: &it.generation()
    }
);
