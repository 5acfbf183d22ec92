//! Containers of servers whose companions are gone: found by their labels and leases, never by name.

use std::sync::Arc;
use std::time::Duration;

use mcp_launcher_docker::ContainerTracker;
use mcp_lifecycle_core::launch::{
    ReapError, ReapReport, Remnant, ServerLauncher as _, UnknownRemnant,
};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Left;
use super::handover::Handover;

/// The longest time that each search takes: an engine that does not answer keeps nobody waiting for longer.
const END: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_secs(10);

/// Ends them, and adds them to what was found otherwise.
pub(crate) fn end(report: &mut ReapReport) {
    match in_time(END, async { tracker().reap_orphans().await }) {
        Ok(containers) => {
            report.ended.extend(containers.ended);
            report.failed.extend(containers.failed);
            report.spared.extend(containers.spared);
            report.unknown.extend(containers.unknown);
        }
        Err(why) => report.unknown.push(all(why)),
    }
}

/// Names those that [`end`] would end.
pub(crate) fn look() -> Left {
    match in_time(LOOK, async { tracker().find_orphans().await }) {
        Ok(found) => Left {
            containers: found.containers,
            unknown: found.unknown,
        },
        Err(why) => Left {
            containers: Vec::new(),
            unknown: vec![all(why)],
        },
    }
}

/// None of them is known.
fn all(why: String) -> UnknownRemnant {
    let all = Remnant::record("containers", "those that servers of dead hosts started");
    UnknownRemnant::new(all, why)
}

fn tracker() -> ContainerTracker<Arc<Handover>> {
    let (_, nobody) = watch::channel(false);
    ContainerTracker::new(Arc::new(Handover::new(nobody)))
}

fn in_time<T>(
    limit: Duration,
    search: impl Future<Output = Result<T, ReapError>>,
) -> Result<T, String> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    match runtime.block_on(async { timeout(limit, search).await }) {
        Ok(found) => found.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {limit:?}")),
    }
}
