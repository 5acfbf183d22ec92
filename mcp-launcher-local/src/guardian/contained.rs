//! A guardian for a command that is started through process-wrap.

use std::future::Future;
use std::io;
use std::mem;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::{Pin, pin};
use std::process::ExitStatus;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use mcp_lifecycle_core::launch::ExitStatus as Exit;
use mcp_lifecycle_core::terminate::{
    EndReason, ServerHandle, TerminationPolicy, TerminationReport,
};
use mcp_tree::launch::UNDO_LIMIT;
use process_wrap::tokio::{ChildWrapper, CommandWrap, CommandWrapper};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use super::server::{GuardedServer, Parent, Server};
use super::spawn::Place;
use super::{Plan, probe};
use crate::cgroup::Leaf;
use crate::program::Attached;
use crate::program::protocol::Request;
use crate::{identity, sys};

/// A process-wrap [`CommandWrapper`] that puts a guardian between the host and a command: one line
/// contains any client of rmcp.
///
/// ```no_run
/// use mcp_launcher_local::Contained;
/// use process_wrap::tokio::CommandWrap;
/// use rmcp::{ServiceExt, transport::TokioChildProcess};
/// use tokio::process::Command;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let contained = Contained::new();
/// let outcome = contained.outcome();
/// let mut command = CommandWrap::from(Command::new("my-mcp-server"));
/// command.wrap(contained);
/// let service = ().serve(TokioChildProcess::new(command)?).await?;
/// println!("{:?}", service.list_all_tools().await?);
/// service.cancel().await?;
/// println!("{}", outcome.await?);
/// # Ok(()) }
/// ```
///
/// The program starts with all that the command says, and `MCP_LIFECYCLE_ID` in its environment. It
/// leads a process group.
///
/// # What is not guaranteed
///
/// - Where this machine has no guardian, a start fails as [`io::ErrorKind::Unsupported`]. The first
///   start finds out, in some milliseconds.
/// - A start forks the host twice and blocks the thread: 3 ms in a small host, 200 to 300 ms in one
///   of 2 GiB. [`LocalLauncher`](crate::LocalLauncher) takes 2 ms in both.
/// - Hooks that the command had before run in the guardian, which has its user and limits too.
/// - Wrap it last. Of a wrapper outside of it the server is not the child, and a `ProcessSession`
///   there fails.
///
/// # Drop
///
/// Undoes a spawn that has failed, which takes five seconds at most.
#[derive(Debug)]
pub struct Contained {
    started: watch::Sender<Option<Tree>>,
    prepared: Option<(Attached, Place, String)>,
}

#[derive(Debug, Clone)]
struct Tree {
    server: Arc<Server>,
    handle: Arc<ServerHandle>,
}

impl Contained {
    /// Wraps one command.
    #[expect(clippy::new_without_default, reason = "each has an outcome of its own")]
    pub fn new() -> Self {
        Self {
            started: watch::Sender::new(None),
            prepared: None,
        }
    }

    /// Returns a future of the end of the tree, which begins nothing and keeps nothing alive. Cancel
    /// safe. The end is an event of `tracing` too.
    ///
    /// It is an error where the command was not started, or its end is not proven: that names what
    /// may be left.
    pub fn outcome(
        &self,
    ) -> impl Future<Output = io::Result<Arc<TerminationReport>>> + Send + use<> {
        let mut started = self.started.subscribe();
        async move {
            let started = started.wait_for(Option::is_some).await;
            let tree = started.ok().and_then(|tree| tree.clone());
            let tree = tree.ok_or_else(|| io::Error::other("the command was not started"))?;
            tree.end().await
        }
    }

    fn undo(&mut self) {
        if let Some((attached, place, _)) = self.prepared.take()
            && attached.undo(UNDO_LIMIT)
        {
            place.vacate();
        }
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        self.undo();
    }
}

impl CommandWrapper for Contained {
    fn pre_spawn(&mut self, command: &mut Command, _: &CommandWrap) -> io::Result<()> {
        // What a failed spawn has left.
        self.undo();
        sys::own_servers()?;
        let plan = Plan::guardian(&probe(false)).map_err(|why| {
            let why = format!("this machine has no guardian: {why}");
            io::Error::new(io::ErrorKind::Unsupported, why)
        })?;
        let identity = match identity::new_server() {
            // An unidentified server could not be found again.
            Err(error) if sys::is_shortage(&error) => return Err(error),
            identity => identity.ok(),
        };
        let mark = identity
            .as_ref()
            .map_or_else(Default::default, |it| it.variable());
        command.env_remove(identity::KEEP);
        match &identity {
            Some(identity) => command.env(identity::VARIABLE, identity.to_string()),
            None => command.env_remove(identity::VARIABLE),
        };
        let name = command
            .as_std()
            .get_program()
            .to_string_lossy()
            .into_owned();
        let place = Place::prepare(identity, plan).map_err(io::Error::other)?;
        let leaf = place.leaf.as_ref().ok();
        let attached = leaf.map(Leaf::open).transpose().and_then(|doors| {
            let cgroup = leaf.map(Leaf::name).zip(doors.as_ref());
            Attached::new(command.as_std_mut(), mark, cgroup).map_err(io::Error::other)
        });
        match attached {
            Ok(attached) => self.prepared = Some((attached, place, name)),
            Err(error) => {
                place.vacate();
                return Err(error);
            }
        }
        Ok(())
    }

    fn wrap_child(
        &mut self,
        mut child: Box<dyn ChildWrapper>,
        _: &CommandWrap,
    ) -> io::Result<Box<dyn ChildWrapper>> {
        let prepared = self.prepared.take();
        let (attached, place, name) = prepared.ok_or(io::ErrorKind::InvalidInput)?;
        let held = attached.hold(child.id().unwrap_or_default(), UNDO_LIMIT);
        let (guardian, pid) = match held {
            Ok(held) => held,
            Err((error, attached)) => {
                // Before the child, which may kill the guardian when it is dropped.
                self.prepared = Some((attached, place, name));
                self.undo();
                return Err(error);
            }
        };
        let (stdin, stdout) = (child.stdin().take(), child.stdout().take());
        let stderr = child.stderr().take();
        let containment = place.plan.containment();
        let server = Server::new(guardian, place, containment);
        let parent = Box::new(Native(child));
        *server.parent.lock().unwrap_or_else(PoisonError::into_inner) = Some(parent);
        server.note_start(pid);
        if let Err(error) = server.watch() {
            server.end_and_wait(UNDO_LIMIT);
            return Err(error);
        }
        let terminator = Arc::new(GuardedServer::new(Arc::clone(&server)));
        // Its input is closed by its owner.
        let (handle, _) = ServerHandle::new(name, Box::new(tokio::io::sink()), terminator);
        let handle = Arc::new(handle);
        let tree = Tree { server, handle };
        self.started.send_replace(Some(tree.clone()));
        Ok(Box::new(ContainedChild {
            stdin,
            stdout,
            stderr,
            tree,
        }))
    }
}

/// The guardian as the child that the host has started.
#[derive(Debug)]
struct Native(Box<dyn ChildWrapper>);

impl Parent for Native {
    fn reap(mut self: Box<Self>) -> io::Result<Option<ExitStatus>> {
        let reaped = self.0.try_wait();
        if reaped.is_err() {
            // It was reaped elsewhere: its drop may kill a stranger with its pid.
            mem::forget(self.0);
        }
        reaped
    }
}

impl Tree {
    /// Waits for the end, and returns the proof.
    async fn end(&self) -> io::Result<Arc<TerminationReport>> {
        let _ = self.server.ending.gone().await;
        let policy = TerminationPolicy::immediate();
        let ended = self.handle.terminate(&policy, EndReason::ServerExited);
        ended.await.map_err(io::Error::other)
    }
}

/// A tree of processes as a child of process-wrap: [`Contained`] makes it of a command.
///
/// Its [`inner`](ChildWrapper::inner) is itself: nothing reaches the guardian, which is the direct
/// child.
///
/// - `id` is the pid of the program, until that has ended.
/// - `wait` and `try_wait` are for the end of the tree, and have the status of the program. `wait`
///   closes its input first. An error names what may be left; waiting again looks again.
/// - `start_kill` and `kill` send SIGKILL to the tree; `signal` sends SIGTERM to the tree, and all
///   other signals to the program's process group.
///
/// # Drop
///
/// Kills the tree synchronously, in any context.
#[derive(Debug)]
pub struct ContainedChild {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    tree: Tree,
}

impl ContainedChild {
    async fn ended(&self) -> io::Result<ExitStatus> {
        let ending = &self.tree.server.ending;
        if ending.gone().await.is_err() {
            self.tree.end().await?;
        }
        match ending.exited().await {
            Exit::Code(code) => Ok(ExitStatus::from_raw((code & 0xff) << 8)),
            Exit::Signal(signal) => Ok(ExitStatus::from_raw(signal)),
            _ => Err(io::Error::other(
                "nothing is left; the status was lost with the guardian, which was killed",
            )),
        }
    }
}

impl ChildWrapper for ContainedChild {
    fn inner(&self) -> &dyn ChildWrapper {
        self
    }

    fn inner_mut(&mut self) -> &mut dyn ChildWrapper {
        self
    }

    fn into_inner(self: Box<Self>) -> Box<dyn ChildWrapper> {
        self
    }

    fn stdin(&mut self) -> &mut Option<ChildStdin> {
        &mut self.stdin
    }

    fn stdout(&mut self) -> &mut Option<ChildStdout> {
        &mut self.stdout
    }

    fn stderr(&mut self) -> &mut Option<ChildStderr> {
        &mut self.stderr
    }

    fn id(&self) -> Option<u32> {
        let server = &self.tree.server;
        server.main_pid().filter(|_| !server.ending.has_exited())
    }

    fn start_kill(&mut self) -> io::Result<()> {
        self.tree.server.force()
    }

    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match pin!(self.ended()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => ended.map(Some),
            Poll::Pending => Ok(None),
        }
    }

    fn wait(&mut self) -> Pin<Box<dyn Future<Output = io::Result<ExitStatus>> + Send + '_>> {
        self.stdin = None;
        Box::pin(self.ended())
    }

    fn signal(&self, signal: i32) -> io::Result<()> {
        let server = &self.tree.server;
        let number = u8::try_from(signal).map_err(|_| io::ErrorKind::InvalidInput)?;
        match signal {
            libc::SIGTERM => server.ask(),
            libc::SIGKILL => server.force(),
            _ if server.ending.has_exited() => Ok(()),
            _ => server.guardian.send(Request::Signal(number)),
        }
    }
}

impl Drop for ContainedChild {
    fn drop(&mut self) {
        let reason = match self.tree.server.ending.is_proven() {
            true => EndReason::ServerExited,
            false => EndReason::OwnerDropped,
        };
        self.tree.handle.kill_now();
        let policy = TerminationPolicy::immediate();
        self.tree.handle.begin_termination(&policy, reason);
    }
}
