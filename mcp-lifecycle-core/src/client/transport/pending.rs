use std::collections::HashMap;

use crate::lock::Lock;
use rmcp::model::{ClientRequest, RequestId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// `initialize`: must not be cancelled (specification 2025-11-25).
    Initialize,
    Discover,
    /// `tools/call`: its result is decoded directly.
    CallTool,
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

/// Normalizes an ID: like rmcp, accepts `"7"` as the answer to `7`.
fn normal(id: &RequestId) -> RequestId {
    match id {
        RequestId::String(text) => text.parse().map_or_else(|_| id.clone(), RequestId::Number),
        RequestId::Number(_) => id.clone(),
    }
}

#[derive(Debug, Default)]
pub(crate) struct Pending {
    requests: Lock<HashMap<RequestId, Asked>>,
}

impl Pending {
    pub(super) fn insert(&self, id: RequestId, asked: Asked) -> usize {
        let mut requests = self.requests.lock();
        requests.insert(id, asked);
        requests.len()
    }

    pub(super) fn remove(&self, id: &RequestId) -> Option<Asked> {
        self.requests.lock().remove(&normal(id))
    }

    pub(super) fn get(&self, id: &RequestId) -> Option<Asked> {
        self.requests.lock().get(&normal(id)).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.lock().len()
    }

    pub(crate) fn take_cancellable(&self) -> Vec<RequestId> {
        let mut ids: Vec<_> = self
            .requests
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
}
