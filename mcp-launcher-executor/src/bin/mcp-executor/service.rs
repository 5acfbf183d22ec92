//! A service manager: what it is told, and the limits that it gave.

use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;

/// More descriptors than this help nobody, and programs that walk through all
/// that they may have would take minutes.
const DESCRIPTORS: nix::libc::rlim_t = 524_288;

/// Raises the limit of descriptors as far as it may be: a process takes five or
/// so, and the usual limit is 1024. What is started inherits it.
pub(crate) fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        let wanted = hard.min(DESCRIPTORS);
        match soft < wanted {
            true => setrlimit(Resource::RLIMIT_NOFILE, wanted, hard),
            false => Ok(()),
        }
    });
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of descriptors stays as it is");
    }
}

/// Tells that clients can connect now, and from then on that all is well.
pub(crate) fn ready(place: &str) {
    tell(&[
        NotifyState::Ready,
        NotifyState::Status(&format!("serving on {place}")),
    ]);
    if let Some(limit) = sd_notify::watchdog_enabled() {
        tokio::spawn(say_well(limit / 3));
    }
}

/// Tells that the end has begun.
pub(crate) fn stopping() {
    tell(&[
        NotifyState::Stopping,
        NotifyState::Status("ending every server"),
    ]);
}

/// From the runtime that serves: when it stands still, so does this.
async fn say_well(every: Duration) {
    let mut turns = tokio::time::interval(every);
    loop {
        turns.tick().await;
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
