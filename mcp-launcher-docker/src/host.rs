use std::io;
use std::sync::Arc;

use mcp_lifecycle_core::lock::Lock;

use crate::endpoint::Endpoint;
use crate::labels::Role;
use crate::last_will::{self, Wills};
use crate::ledger::{Ledger, Place};

/// A host since its first launch. Every container holds it until it is proven gone.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) ledger: Arc<Ledger>,
    wills: Option<Arc<Wills>>,
}

impl Host {
    /// Returns the host in `held`, and takes a ledger at its first use. With `willed`, containers of
    /// this role get a last will.
    pub(crate) fn take(
        held: &Lock<Option<Self>>,
        place: &Place,
        willed: Option<Role>,
    ) -> io::Result<Self> {
        let mut held = held.lock();
        if let Some(host) = &*held {
            host.ledger.refresh();
            return Ok(host.clone());
        }
        let ledger = Arc::new(Ledger::take(place)?);
        ledger.look_after()?;
        let wills = willed.map(|role| Arc::new(Wills::new(&ledger.instance, role)));
        Ok(held.insert(Self { ledger, wills }).clone())
    }

    #[cfg(test)]
    pub(crate) fn without_will(directory: &std::path::Path) -> Self {
        Self::take(&Lock::default(), &Place::At(directory.to_owned()), None).unwrap()
    }

    /// Makes sure that containers of this engine end with the host. Called before the first creation.
    pub(crate) fn cover(&self, engine: &Endpoint) {
        if let (Some(wills), Some(socket)) = (&self.wills, engine.local_socket()) {
            wills.cover(socket);
        }
    }

    /// Returns whether a process removes the containers of this engine when the host dies, or would.
    pub(crate) fn is_willed(&self, engine: &Endpoint) -> bool {
        let (Some(wills), Some(socket)) = (&self.wills, engine.local_socket()) else {
            return false;
        };
        wills
            .is_alive(socket)
            .unwrap_or_else(last_will::is_possible)
    }
}
