//! The sessions, and the end of those with a silent client.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_lifecycle_core::backend::random;
use mcp_lifecycle_core::lock::Lock;
use mcp_lifecycle_core::terminate::EndReason;

use super::Shared;
use super::origin::Share;
use super::quota::Account;
use super::session::Session;
use crate::protocol::extension::{Lifecycle, longest_reprieve};
use crate::protocol::{RpcError, code};

#[derive(Default)]
pub(super) struct Registry {
    sessions: Lock<HashMap<String, Arc<Session>>>,
    /// Accounts by share, never removed: their number is that of tokens and users.
    accounts: Lock<HashMap<Share, Arc<Account>>>,
}

impl Registry {
    pub(super) fn count(&self) -> usize {
        self.sessions.lock().len()
    }

    /// Returns the account of these clients. An unproven process holds its permit in it beyond its
    /// session.
    pub(super) fn account(&self, of: &Share, open: impl FnOnce() -> Arc<Account>) -> Arc<Account> {
        let mut accounts = self.accounts.lock();
        Arc::clone(accounts.entry(of.clone()).or_insert_with(open))
    }

    pub(super) fn memory(&self) -> usize {
        let accounts = self.accounts.lock();
        accounts.values().map(|it| it.memory_used()).sum()
    }

    /// Returns the session with this name, which is its only credential: 128 random bits that only
    /// its client knows. It may be in its end.
    pub(super) fn find(&self, id: &str) -> Option<Arc<Session>> {
        self.sessions.lock().get(id).cloned()
    }

    pub(super) fn open(
        shared: &Arc<Shared>,
        lifecycle: Option<Lifecycle>,
        of: Share,
    ) -> Result<Arc<Session>, RpcError> {
        let id = random::id()
            .map_err(|error| RpcError::new(code::INTERNAL, format!("no randomness: {error}")))?;
        let session = {
            let mut sessions = shared.registry.sessions.lock();
            // Checked under the lock, which the shutdown takes as well.
            if shared.closing.is_cancelled() {
                let text = "this executor is about to leave";
                return Err(RpcError::new(code::LIMIT, text));
            }
            let most = shared.account(&of).sessions;
            if sessions.values().filter(|other| other.of == of).count() >= most {
                let text = format!("this executor has {most} sessions of this token or user");
                return Err(RpcError::new(code::LIMIT, text));
            }
            let session = Session::new(id.clone(), shared, lifecycle, of);
            sessions.insert(id, Arc::clone(&session));
            session
        };
        tokio::spawn(watch(Arc::clone(shared), Arc::clone(&session)));
        Ok(session)
    }

    pub(super) async fn end(&self, session: &Arc<Session>, reason: EndReason) {
        session.end(reason).await;
        self.sessions.lock().remove(&session.id);
    }

    pub(super) async fn wind_down(&self) {
        let all: Vec<_> = self.sessions.lock().values().cloned().collect();
        let ends = all.iter().map(|session| session.wind_down());
        futures_util::future::join_all(ends).await;
    }

    pub(super) async fn end_all(&self) {
        let all: Vec<_> = self.sessions.lock().values().cloned().collect();
        let ends = all
            .iter()
            .map(|session| self.end(session, EndReason::Shutdown));
        futures_util::future::join_all(ends).await;
    }
}

/// Ends the session when its lease expires.
///
/// Input that is read late, because this daemon was stopped or starved, does not count as its
/// client's silence. So pending input is read before the lease counts as expired, and a lease that
/// is found expired late is extended.
async fn watch(shared: Arc<Shared>, session: Arc<Session>) {
    let (mut spared, finished) = (None, session.finished.clone());
    loop {
        let expires = session.expires();
        let now = Instant::now();
        let until = if now < expires {
            expires
        } else if spared == Some(expires) {
            break;
        } else {
            spared = Some(expires);
            let attached = session.nudge();
            now + reprieve(session.lease, now - expires, attached)
        };
        tokio::select! {
            () = tokio::time::sleep_until(until.into()) => {}
            () = finished.cancelled() => return,
        }
    }
    let reason = EndReason::Other("lease_expired".to_owned());
    shared.registry.end(&session, reason).await;
}

fn reprieve(lease: Duration, late: Duration, attached: bool) -> Duration {
    /// Maximum delay of timers in a healthy daemon.
    const PUNCTUAL: Duration = Duration::from_millis(250);
    let drain = match attached {
        true => (lease / 8).min(Duration::from_millis(200)),
        false => Duration::ZERO,
    };
    if late <= PUNCTUAL {
        return drain;
    }
    // Its client may be reconnecting now.
    drain.max(longest_reprieve(lease))
}
