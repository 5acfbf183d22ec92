//! Containers of servers without a companion: found by their labels and ledgers, never by name.

use std::time::Duration;

use mcp_launcher_docker::ContainerTracker;
use mcp_lifecycle_core::launch::{ReapError, ReapReport, Remnant, UnknownRemnant};
use tokio::runtime::Builder;
use tokio::time::timeout;

const END: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_secs(10);

pub(crate) fn end(report: &mut ReapReport) {
    match in_time(END, async { tracker().reap_containers().await }) {
        Ok(containers) => {
            report.ended.extend(containers.ended);
            report.failed.extend(containers.failed);
            report.spared.extend(containers.spared);
            report.unknown.extend(containers.unknown);
        }
        Err(why) => report.unknown.push(all(why)),
    }
}

/// Lists the containers that [`end`] would end, and the places that could not be examined.
pub(crate) fn look() -> (Vec<Remnant>, Vec<UnknownRemnant>) {
    match in_time(LOOK, async { tracker().find_orphans().await }) {
        Ok(found) => found,
        Err(why) => (Vec::new(), vec![all(why)]),
    }
}

pub(crate) fn forget(url: &str) -> usize {
    tracker().forget_engine(url)
}

fn all(why: String) -> UnknownRemnant {
    let all = Remnant::record("containers", "those that servers of dead hosts started");
    UnknownRemnant::new(all, why)
}

fn tracker() -> ContainerTracker<()> {
    ContainerTracker::without_launcher()
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
