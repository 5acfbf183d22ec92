//! The companion: a separate process beside the guardian that tracks the containers of one server
//! and ends them after it. `docs/contain-reference.md` has its states.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::process::{self, ExitCode};
use std::time::Duration;
use std::{env, io};

use mcp_launcher_docker::{ContainerTracker, Tracking};
use mcp_lifecycle_core::launch::{ErrorChain, InheritEnv, ServerSpec, SpecError};
use mcp_tree::Wrapper;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::reply::{Reply, received, sent};
use crate::sys;

/// Longest time for ending containers. After that, `reap` or the next companion ends them.
const LIMIT: Duration = Duration::from_secs(600);

/// The wrapper's first message to the companion, in JSON.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) grace: Duration,
    /// Fail rather than start a server without tracked containers.
    pub(super) insists: bool,
    pub(super) name: OsString,
    pub(super) command: Vec<OsString>,
}

/// Becomes the companion: detaches from the wrapper and stays until its work is done.
pub(crate) fn run() -> ExitCode {
    // Descriptors leaked by the host must not stay open in this process.
    mcp_guardian::sys::close_all_but(&[]);
    let Ok(order) = received::<Order>(io::stdin().lock()) else {
        return ExitCode::from(125);
    };
    // Belongs to no host, group or session: an orphan that process 1 reaps.
    if nix::unistd::daemon(true, true).is_err() {
        return ExitCode::FAILURE;
    }
    let _ = nix::sys::prctl::set_name(c"mcp-companion");
    // Killing programs by name should end the server, not this clean-up.
    let _ = sys::be_deaf();
    match attend(&order) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn attend(order: &Order) -> io::Result<()> {
    let stream = StdStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    stream.set_nonblocking(true)?;
    let directory = env::current_dir();
    // Do not keep the host's directory busy.
    let _ = env::set_current_dir("/");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut wrapper = UnixStream::from_std(stream)?;
        let tracker = ContainerTracker::without_launcher().require_proxy(order.insists);
        let spec = specification(order, directory.ok().as_deref());
        let tracking = match spec {
            // The wrapper adds the context.
            Ok(spec) => tracker
                .track(&spec)
                .map_err(|why| ErrorChain(&why).to_string()),
            Err(error) => Err(error.to_string()),
        };
        let (reply, tracked) = match tracking {
            Ok(Tracking::Tracked(tracked)) => (reply(tracked.spec()), Some(tracked)),
            Ok(Tracking::Untracked(None)) => (Reply::Nothing, None),
            Ok(Tracking::Untracked(Some(why))) | Err(why) => (Reply::Untracked(why), None),
        };
        wrapper.write_all(&sent(&reply)?).await?;
        let Some(tracked) = tracked else {
            return Ok(());
        };
        tokio::select! {
            () = wait_for_end(&mut wrapper) => {}
            // For servers that were killed with their companions. The next companion tries again.
            () = async {
                let _ = tracker.reap_containers().await;
                std::future::pending().await
            } => {}
        }
        let limit = LIMIT.saturating_add(order.grace);
        if timeout(limit, tracked.end(order.grace)).await.is_err() {
            // The ledger stays behind unlocked, and leads a search to the containers.
            process::exit(1);
        }
        let _ = wrapper.write_all(&[Wrapper::COMPANION_DONE]).await;
        Ok(())
    })
}

fn specification(order: &Order, directory: Option<&Path>) -> Result<ServerSpec, SpecError> {
    let (program, args) = match order.command.split_first() {
        Some((program, args)) => (program.as_os_str(), args),
        None => (OsStr::new(""), &[][..]),
    };
    let name = order.name.to_string_lossy();
    let mut spec = ServerSpec::builder(name, program)
        .args(args.iter().cloned())
        .inherit_env(InheritEnv::All);
    if let Some(directory) = directory {
        spec = spec.cwd(directory);
    }
    spec.build()
}

fn reply(spec: &ServerSpec) -> Reply {
    let program = spec.program().map(OsStr::to_owned);
    let literals = spec.env().literals();
    Reply::Tracked {
        command: program.into_iter().chain(spec.args().to_vec()).collect(),
        env: literals
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    }
}

/// Completes when the shim reports the server's end, or shim and guardian are dead.
async fn wait_for_end(wrapper: &mut UnixStream) {
    let mut word = [0];
    while let Ok(1) = wrapper.read(&mut word).await {
        if word == [Wrapper::SERVER_GONE] {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let order = Order {
            grace: Duration::from_millis(2500),
            insists: true,
            name: "my server".into(),
            command: ["docker", "run", "--", "x"].map(OsString::from).into(),
        };
        let text = sent(&order).unwrap();
        assert_eq!(received::<Order>(&*text).unwrap(), order);
    }
}
