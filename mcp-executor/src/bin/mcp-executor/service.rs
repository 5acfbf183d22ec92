use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;

/// Upper limit of descriptors: programs that iterate over all possible ones would take minutes with
/// more.
const DESCRIPTORS: nix::libc::rlim_t = 524_288;

/// Raises the descriptor limit as far as allowed: a process takes about five, and the usual limit
/// is 1024. Servers inherit it.
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

/// Reports that clients can connect, and from then on that the service is alive.
pub(crate) fn ready(place: &str) {
    tell(&[
        NotifyState::Ready,
        NotifyState::Status(&format!("serving on {place}")),
    ]);
    if let Some(limit) = sd_notify::watchdog_enabled() {
        tokio::spawn(say_well(limit / 3));
    }
}

pub(crate) fn stopping() {
    tell(&[
        NotifyState::Stopping,
        NotifyState::Status("ending every server"),
    ]);
}

/// Sends keep-alives from the serving runtime, so that they stop when it hangs.
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
