//! The sessions there are, and the end of those that nobody is heard of.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mcp_lifecycle_core::terminate::EndReason;
use tokio::sync::Semaphore;

use super::Shared;
use super::metrics::TokenMetrics;
use super::origin::Share;
use super::session::Session;
use crate::mutex::Mutex;
use crate::protocol::extension::{Lifecycle, longest_reprieve};
use crate::protocol::{RpcError, code};

#[derive(Default)]
pub(super) struct Registry {
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// Places for processes of each share, as long as somebody has one of them.
    places: Mutex<HashMap<Share, Weak<Semaphore>>>,
}

impl Registry {
    /// How many sessions there are.
    pub(super) fn count(&self) -> usize {
        self.sessions.lock().len()
    }

    /// Places for processes of this share: so many, or those there are. A process that is
    /// not proven gone keeps its place when the session has ended.
    pub(super) fn places(&self, of: &Share, most: usize) -> Arc<Semaphore> {
        let mut places = self.places.lock();
        if let Some(known) = places.get(of).and_then(Weak::upgrade) {
            return known;
        }
        places.retain(|_, places| places.strong_count() > 0);
        let new = Arc::new(Semaphore::new(most));
        places.insert(of.clone(), Arc::downgrade(&new));
        new
    }

    /// The use that the clients of each token make of the daemon, where there are several.
    pub(super) fn tokens(&self) -> Vec<TokenMetrics> {
        let mut tokens = BTreeMap::new();
        for session in self.sessions.lock().values() {
            let Share::Token(name) = &session.of else {
                continue;
            };
            let free = session.places.available_permits();
            let token = tokens.entry(Arc::clone(name)).or_insert(TokenMetrics {
                name: name.to_string(),
                sessions: 0,
                processes: session.most_processes.saturating_sub(free) as u64,
                memory_bytes: session.portion.used_by_kin() as u64,
            });
            token.sessions += 1;
        }
        tokens.into_values().collect()
    }

    /// Whether this session is being ended: it is there, and not for resuming.
    pub(super) fn is_ending(&self, id: &str) -> bool {
        self.sessions.lock().contains_key(id)
    }

    /// The session of this name. Knowing the name is the right to it: it is 122
    /// random bits, and said to its client only.
    pub(super) fn find(&self, id: &str) -> Option<Arc<Session>> {
        self.sessions
            .lock()
            .get(id)
            .filter(|s| !s.has_ended())
            .cloned()
    }

    /// A new session, and the task that watches over its lease.
    pub(super) fn open(
        shared: &Arc<Shared>,
        lifecycle: Option<Lifecycle>,
        takes: Option<u64>,
        of: Share,
    ) -> Result<Arc<Session>, RpcError> {
        let limits = &shared.limits;
        let id = random_id()?;
        let session = {
            let mut sessions = shared.registry.sessions.lock();
            // Under the lock that the end takes the sessions with.
            if shared.closing.is_cancelled() {
                let text = "this executor is about to leave";
                return Err(RpcError::new(code::LIMIT, text));
            }
            let share = shared.allowance().sessions;
            if sessions.values().filter(|other| other.of == of).count() >= share {
                give_up_one(shared, &mut sessions, |session| session.of == of);
            }
            if sessions.len() >= limits.max_sessions {
                give_up_one(shared, &mut sessions, |_| true);
            }
            if sessions.len() >= limits.max_sessions {
                let text = format!("this executor has {} sessions already", limits.max_sessions);
                return Err(RpcError::new(code::LIMIT, text));
            }
            let same: Vec<_> = sessions.values().filter(|other| other.of == of).collect();
            if same.len() >= share {
                let text = format!(
                    "this executor has {share} sessions of this token, address or user already"
                );
                return Err(RpcError::new(code::LIMIT, text));
            }
            let kin = same.first().map(|other| &***other);
            let session = Session::new(id.clone(), shared, kin, lifecycle, takes, of);
            sessions.insert(id, Arc::clone(&session));
            session
        };
        tokio::spawn(watch(Arc::clone(shared), Arc::clone(&session)));
        Ok(session)
    }

    /// Ends a session for good.
    pub(super) async fn end(&self, session: &Arc<Session>, reason: EndReason) {
        session.end(reason).await;
        self.sessions.lock().remove(&session.id);
        session.over.notify_waiters();
        session.over.notify_one();
    }

    /// Ends every process of every session, and delivers what there is to tell.
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

/// How long a session without a process outlives its connection, when others need
/// its place.
const ABANDONED: Duration = Duration::from_secs(3);

/// Ends the longest abandoned of these sessions, so that another one gets its place.
fn give_up_one(
    shared: &Arc<Shared>,
    sessions: &mut HashMap<String, Arc<Session>>,
    among: impl Fn(&Session) -> bool,
) {
    let abandoned = sessions
        .values()
        .filter(|session| among(session))
        .filter_map(|session| Some((session.abandoned()?, session)))
        .filter(|(since, _)| *since >= ABANDONED)
        .max_by_key(|(since, _)| *since);
    if let Some(session) = abandoned.map(|(_, session)| Arc::clone(session)) {
        sessions.remove(&session.id);
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let reason = EndReason::Other("place_needed".to_owned());
            shared.registry.end(&session, reason).await;
        });
    }
}

/// Ends the session when its lease runs out.
///
/// What is read late because this daemon was stopped or starved is not its
/// client's silence. So what has arrived is read before the lease counts as
/// run out, and a lease that is found to be over late is given some more.
async fn watch(shared: Arc<Shared>, session: Arc<Session>) {
    let mut spared = None;
    loop {
        let expires = session.expires();
        let now = Instant::now();
        let until = if now < expires {
            expires
        } else if spared == Some(expires) && !session.is_reading() {
            break;
        } else {
            spared = Some(expires);
            let attached = session.nudge();
            now + reprieve(session.lease, now - expires, attached)
        };
        tokio::select! {
            () = tokio::time::sleep_until(until.into()) => {}
            () = session.over.notified() => return,
        }
    }
    let reason = EndReason::Other("lease_expired".to_owned());
    shared.registry.end(&session, reason).await;
}

/// How long a session goes on whose lease is found to have run out this late.
fn reprieve(lease: Duration, late: Duration, attached: bool) -> Duration {
    /// Timers of a daemon that is well are not later than this.
    const PUNCTUAL: Duration = Duration::from_millis(250);
    let drain = match attached {
        true => (lease / 8).min(Duration::from_millis(200)),
        false => Duration::ZERO,
    };
    if late <= PUNCTUAL {
        return drain;
    }
    // Its client may be coming back right now.
    drain.max(longest_reprieve(lease))
}

/// A random UUID (version 4).
fn random_id() -> Result<String, RpcError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| RpcError::new(code::INTERNAL, format!("no randomness: {error}")))?;
    let n = u128::from_be_bytes(bytes) & !(0xf000_u128 << 64) | (0x4000_u128 << 64);
    let n = n & !(0xc000_u128 << 48) | (0x8000_u128 << 48);
    let hex = format!("{n:032x}");
    Ok(format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    ))
}
