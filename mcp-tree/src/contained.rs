//! A guardian for a command that is started through process-wrap.

use std::process::{Command, ExitStatus};
use std::{io, mem};
#[cfg(feature = "process-wrap-tokio")]
use std::{pin::Pin, sync::Arc};

use mcp_lifecycle_core::launch::ExitStatus as Exit;
#[cfg(feature = "process-wrap-tokio")]
use tokio::sync::watch;

#[cfg(feature = "process-wrap-tokio")]
use crate::tree::Guarded;
use crate::tree::{Attaching, Ended, Options, Reap, Tree, Unproven};

/// A wrapper of process-wrap, for std and for tokio: its command starts as a [`Tree`]. One line
/// contains any client of rmcp.
///
/// ```no_run
/// use mcp_tree::Contained;
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
/// println!("{:?}", outcome.await?);
/// # Ok(()) }
/// ```
///
/// It starts as [`Tree::spawn`] does, with its errors. Wrap it last: of a wrapper outside of it the
/// program is not the child, and a `ProcessSession` there fails.
///
/// # Drop
///
/// Undoes a spawn that has failed, which takes five seconds at most.
#[derive(Debug)]
pub struct Contained {
    options: Options,
    prepared: Option<Attaching>,
    #[cfg(feature = "process-wrap-tokio")]
    started: watch::Sender<Option<Arc<Guarded>>>,
}

impl Contained {
    /// Wraps one command.
    #[expect(clippy::new_without_default, reason = "each has an outcome of its own")]
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    /// Wraps one command, with these options.
    pub fn with(options: Options) -> Self {
        Self {
            options,
            prepared: None,
            #[cfg(feature = "process-wrap-tokio")]
            started: watch::Sender::new(None),
        }
    }

    /// Returns a future of the end of the tree, which begins nothing and keeps nothing alive. Cancel
    /// safe. The end is an event of `tracing` too.
    ///
    /// It is an error where the command was not started, or its end is not proven: that names what
    /// may be left.
    #[cfg(feature = "process-wrap-tokio")]
    pub fn outcome(&self) -> impl Future<Output = io::Result<Ended>> + Send + use<> {
        let mut started = self.started.subscribe();
        async move {
            let started = started.wait_for(Option::is_some).await;
            let guarded = started.ok().and_then(|guarded| guarded.clone());
            let guarded = guarded.ok_or_else(|| io::Error::other("the command was not started"))?;
            guarded.ended().await.map_err(io::Error::other)
        }
    }

    fn prepare(&mut self, command: &mut Command) -> io::Result<()> {
        // Undoes what a failed spawn has left.
        self.prepared = None;
        self.prepared = Some(Attaching::new(command, &self.options)?);
        Ok(())
    }

    fn hold(&mut self, child: u32, reap: Reap) -> io::Result<Tree> {
        let prepared = self.prepared.take().ok_or(io::ErrorKind::InvalidInput)?;
        let tree = prepared.hold(child, reap)?;
        #[cfg(feature = "process-wrap-tokio")]
        self.started.send_replace(Some(Arc::clone(&tree.guarded)));
        Ok(tree)
    }
}

/// A [`Tree`] as a child of process-wrap: [`Contained`] makes it of a command.
///
/// Its `inner` is itself: nothing reaches the guardian, which is the direct child.
///
/// - `id` is the pid of the program; with tokio until that has ended.
/// - `wait` and `try_wait` are for the end of the tree, and have the status of the program. `wait`
///   closes its input first. An error names what may be left; waiting again looks again.
/// - `start_kill` and `kill` are [`Tree::kill`], and `signal` is [`Tree::signal`].
///
/// # Drop
///
/// That of the [`Tree`].
#[derive(Debug)]
pub struct ContainedChild<I, O, E> {
    stdin: Option<I>,
    stdout: Option<O>,
    stderr: Option<E>,
    tree: Tree,
}

/// Returns the status of the program, as a child of process-wrap has one.
fn status(ended: Result<Ended, Unproven>) -> io::Result<ExitStatus> {
    use std::os::unix::process::ExitStatusExt as _;
    match ended.map_err(io::Error::other)?.exit {
        Exit::Code(code) => Ok(ExitStatus::from_raw((code & 0xff) << 8)),
        Exit::Signal(signal) => Ok(ExitStatus::from_raw(signal)),
        _ => Err(io::Error::other(
            "nothing is left; the status was lost with the guardian, which was killed",
        )),
    }
}

/// Implements the traits of process-wrap, of which it has one set for std and one for tokio.
macro_rules! implement {
    ($of:ident, $standard:expr, $($own:item)*) => {
        const _: () = {
            use ::process_wrap::$of::{ChildWrapper, CommandWrap, CommandWrapper};
            use ::$of::process::{ChildStderr, ChildStdin, ChildStdout, Command};

            impl CommandWrapper for Contained {
                fn pre_spawn(&mut self, command: &mut Command, _: &CommandWrap) -> io::Result<()> {
                    self.prepare($standard(command))
                }

                fn wrap_child(
                    &mut self,
                    mut child: Box<dyn ChildWrapper>,
                    _: &CommandWrap,
                ) -> io::Result<Box<dyn ChildWrapper>> {
                    let (stdin, stdout) = (child.stdin().take(), child.stdout().take());
                    let stderr = child.stderr().take();
                    let id = Option::from(child.id()).unwrap_or_default();
                    let reap = move || {
                        let reaped = child.try_wait();
                        if reaped.is_err() {
                            // It was reaped elsewhere: its drop may kill a stranger with its pid.
                            mem::forget(child);
                        }
                        reaped
                    };
                    let tree = self.hold(id, Box::new(reap))?;
                    Ok(Box::new(ContainedChild {
                        stdin,
                        stdout,
                        stderr,
                        tree,
                    }))
                }
            }

            impl ChildWrapper for ContainedChild<ChildStdin, ChildStdout, ChildStderr> {
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

                fn start_kill(&mut self) -> io::Result<()> {
                    self.tree.kill()
                }

                fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
                    // Without looking again.
                    let outcome = self.tree.guarded.ending.look().outcome();
                    let ended = outcome.map(|outcome| self.tree.guarded.judge(outcome));
                    ended.map(status).transpose()
                }

                fn signal(&self, signal: i32) -> io::Result<()> {
                    self.tree.signal(signal)
                }

                $($own)*
            }
        };
    };
}

#[cfg(feature = "process-wrap-std")]
implement! {
    std,
    std::convert::identity,
    fn id(&self) -> u32 {
        self.tree.guarded.main_pid().unwrap_or_default()
    }
    fn wait(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        status(self.tree.wait(std::time::Duration::MAX))
    }
}

#[cfg(feature = "process-wrap-tokio")]
implement! {
    tokio,
    Command::as_std_mut,
    fn id(&self) -> Option<u32> {
        self.tree.id()
    }
    fn wait(&mut self) -> Pin<Box<dyn Future<Output = io::Result<ExitStatus>> + Send + '_>> {
        self.stdin = None;
        Box::pin(async { status(self.tree.guarded.ended().await) })
    }
}
