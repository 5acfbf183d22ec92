//! The requests that wait for an answer: for decoding, cancellation and salvage.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::{ClientRequest, RequestId};

/// The kind of a request, as far as the transport cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// `initialize`: must not be cancelled (specification 2025-11-25).
    Initialize,
    /// `server/discover`: the probe for the era.
    Discover,
    /// `tools/call`: its result has a decoder of its own.
    CallTool,
    /// Anything else.
    Other,
}

impl Asked {
    pub(super) fn by(request: &ClientRequest) -> Self {
        match request {
            ClientRequest::InitializeRequest(_) => Self::Initialize,
            ClientRequest::DiscoverRequest(_) => Self::Discover,
            ClientRequest::CallToolRequest(_) => Self::CallTool,
            _ => Self::Other,
        }
    }
}

/// Some servers answer the id `7` with `"7"`; rmcp accepts that, so we do.
fn normal(id: &RequestId) -> RequestId {
    match id {
        RequestId::String(text) => text.parse().map_or_else(|_| id.clone(), RequestId::Number),
        RequestId::Number(_) => id.clone(),
    }
}

/// The requests that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    requests: Mutex<HashMap<RequestId, Asked>>,
}

impl Pending {
    pub(super) fn insert(&self, id: RequestId, asked: Asked) -> usize {
        let mut requests = self.lock();
        requests.insert(id, asked);
        requests.len()
    }

    pub(super) fn remove(&self, id: &RequestId) -> Option<Asked> {
        self.lock().remove(&normal(id))
    }

    pub(super) fn get(&self, id: &RequestId) -> Option<Asked> {
        self.lock().get(&normal(id)).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Takes out everything that may be cancelled, in the order of the ids.
    pub(crate) fn take_cancellable(&self) -> Vec<RequestId> {
        let mut ids: Vec<_> = self
            .lock()
            .extract_if(|_, asked| matches!(asked, Asked::CallTool | Asked::Other))
            .map(|(id, _)| id)
            .collect();
        ids.sort_by_key(|id| match id {
            RequestId::Number(n) => *n,
            RequestId::String(_) => i64::MAX,
        });
        ids
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Asked>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
