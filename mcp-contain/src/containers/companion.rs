//! The companion: a separate process beside the guardian that tracks the containers of one server
//! and ends them after it. `docs/contain-reference.md` has its states.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream as StdStream;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, io};

use mcp_launcher_docker::{ContainerTracker, ProxyMode};
use mcp_launcher_local::Wrapper;
use mcp_lifecycle_core::launch::{
    ErrorChain, InheritEnv, LaunchContext, LaunchError, LaunchedServer, ProcessTerminator,
    ServerLauncher, ServerSpec,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::handover::Handover;
use super::reply::Reply;
use crate::sys;

/// Longest time for ending containers, counted from their server's end. After that, `reap` or the
/// next companion ends them.
const LIMIT: Duration = Duration::from_secs(600);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Grace of a container after its stop signal.
    pub(super) grace: Duration,
    /// Fail rather than start a server without tracked containers.
    pub(super) insists: bool,
    pub(super) name: OsString,
    pub(super) command: Vec<OsString>,
}

impl Order {
    pub(super) fn words(&self) -> Vec<OsString> {
        let grace = u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX);
        let insists = if self.insists { "always" } else { "auto" };
        let fixed = [grace.to_string().into(), insists.into(), self.name.clone()];
        fixed
            .into_iter()
            .chain(self.command.iter().cloned())
            .collect()
    }

    pub(super) fn read(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        Some(Self {
            grace: Duration::from_millis(words.next()?.to_str()?.parse().ok()?),
            insists: words.next()? == "always",
            name: words.next()?,
            command: words.collect(),
        })
    }
}

/// Becomes the companion: detaches from the wrapper and stays until its work is done.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    // Descriptors leaked by the host must not stay open in this process.
    close_all_but_streams();
    let Some(order) = Order::read(words) else {
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
        // The wrapper sees the end of file.
        Err(_) => ExitCode::FAILURE,
    }
}

fn close_all_but_streams() {
    const FIRST: i32 = 3;
    let Ok(entries) = fs::read_dir("/proc/thread-self/fd") else {
        return;
    };
    let numbers: Vec<i32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|&number| number >= FIRST) {
        // Includes the directory's own descriptor, which is already closed.
        let _ = nix::unistd::close(number);
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
        let (end, is_gone) = watch::channel(false);
        let handover = Arc::new(Handover::new(is_gone));
        let mode = if order.insists {
            ProxyMode::Always
        } else {
            ProxyMode::Auto
        };
        let tracker = ContainerTracker::new(Arc::clone(&handover)).proxy(mode);
        let spec = specification(order, directory.ok().as_deref());
        let server = match spec {
            Ok(spec) => tracker
                .launch(&spec, &LaunchContext::new())
                .await
                .map_err(|error| why(&error))
                .map(|server| (spec, server)),
            Err(error) => Err(error.to_string()),
        };
        let (reply, server) = match server {
            Ok((spec, server)) => (reply(&spec, &handover, &server), Some(server)),
            Err(why) => (Reply::Untracked(why), None),
        };
        wrapper.write_all(&reply.encode()?).await?;
        let (Reply::Tracked { .. }, Some(server)) = (reply, server) else {
            return Ok(());
        };
        tokio::select! {
            () = wait_for_end(&mut wrapper) => {}
            // Clean up after servers that were killed with their companions. The next companion
            // retries what fails now.
            () = async {
                let _ = tracker.reap_orphans().await;
                std::future::pending().await
            } => {}
        }
        end.send_replace(true);
        if !ended(&**server.terminator(), order.grace).await {
            // The ledger stays behind unlocked, and leads a search to the containers.
            process::exit(1);
        }
        // The wrapper may be gone.
        let _ = wrapper.write_all(&[Wrapper::COMPANION_DONE]).await;
        Ok(())
    })
}

fn specification(
    order: &Order,
    directory: Option<&std::path::Path>,
) -> Result<ServerSpec, mcp_lifecycle_core::launch::SpecError> {
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

/// Returns the cause alone; the wrapper adds the context.
fn why(error: &LaunchError) -> String {
    ErrorChain(error.kind()).to_string()
}

fn reply(spec: &ServerSpec, handover: &Handover, server: &LaunchedServer) -> Reply {
    let changed = handover.spec().filter(|changed| changed != spec);
    let Some(changed) = changed else {
        let fallback = server.terminator().semantics().containment.fallback;
        return fallback.map_or(Reply::Nothing, |why| Reply::Untracked(why.into_owned()));
    };
    let program = changed.program().map(OsStr::to_owned);
    Reply::Tracked {
        command: program
            .into_iter()
            .chain(changed.args().iter().cloned())
            .collect(),
        env: changed
            .env()
            .literals()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    }
}

/// Completes when the shim reports that nothing of the server is left, or when shim and guardian
/// are both dead.
async fn wait_for_end(wrapper: &mut UnixStream) {
    let mut word = [0];
    while let Ok(1) = wrapper.read(&mut word).await {
        if word == [Wrapper::SERVER_GONE] {
            return;
        }
    }
}

/// Ends the containers: detached ones get a stop signal, and after the grace all are forced.
/// Returns whether that is proven.
async fn ended(server: &dyn ProcessTerminator, grace: Duration) -> bool {
    let end = async {
        if matches!(timeout(grace, server.gone()).await, Ok(Ok(_))) {
            return true;
        }
        let _ = server.force_end().await;
        server.gone().await.is_ok()
    };
    timeout(LIMIT.saturating_add(grace), end)
        .await
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use async_trait::async_trait;
    use mcp_lifecycle_core::launch::{
        Containment, Evidence, ExitStatus, Gone, Reach, Remnant, ServerIdentity, StepError,
        TerminationSemantics,
    };

    use super::*;

    /// A server whose end is unknown at the first look, and known at the second.
    #[derive(Debug, Default)]
    struct Unsure {
        is_forced: AtomicBool,
        is_gone: bool,
    }

    #[async_trait]
    impl ProcessTerminator for Unsure {
        fn identity(&self) -> ServerIdentity {
            ServerIdentity::Other("a server".to_owned())
        }

        fn semantics(&self) -> TerminationSemantics {
            TerminationSemantics::new(Containment::new("none", Reach::Nothing))
        }

        async fn exited(&self) -> ExitStatus {
            ExitStatus::Unknown
        }

        async fn request_end(&self) -> Result<(), StepError> {
            Ok(())
        }

        async fn force_end(&self) -> Result<(), StepError> {
            self.is_forced.store(true, Ordering::Relaxed);
            Ok(())
        }

        async fn gone(&self) -> Result<Gone, StepError> {
            match self.is_gone && self.is_forced.load(Ordering::Relaxed) {
                true => Ok(Gone::proven_by(Evidence::ContainerAbsent)),
                false => Err(StepError::new("look", io::Error::other("no answer"))),
            }
        }

        async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
            Ok(Vec::new())
        }

        fn kill_now(&self) {}
    }

    #[test]
    fn what_cannot_be_told_in_the_grace_is_forced_and_is_no_proof() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        for is_gone in [true, false] {
            let server = Unsure {
                is_gone,
                ..Unsure::default()
            };
            let has_ended = runtime.block_on(ended(&server, Duration::from_secs(60)));
            assert!(server.is_forced.load(Ordering::Relaxed));
            assert_eq!(has_ended, is_gone);
        }
    }

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let order = Order {
            grace: Duration::from_millis(2500),
            insists: true,
            name: "my server".into(),
            command: ["docker", "run", "--", "x"].map(OsString::from).into(),
        };
        assert_eq!(Order::read(order.words().into_iter()), Some(order));
        assert_eq!(Order::read(["x".into()].into_iter()), None);
    }
}
