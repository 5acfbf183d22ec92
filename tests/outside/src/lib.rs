//! A complete launcher, as a third party would write it: the bare child process.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::{io, thread};

use async_trait::async_trait;
use mcp_lifecycle_core::launch::*;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::net::unix::pipe;
use tokio::sync::watch;

/// Starts servers as children of this process, each alone.
#[derive(Debug)]
pub struct BareLauncher;

fn semantics() -> TerminationSemantics {
    TerminationSemantics::new(Containment::new("bare process", Reach::Process))
        .stdin_eof()
        .polite_signal()
}

#[async_trait]
impl ServerLauncher for BareLauncher {
    fn name(&self) -> &str {
        "bare"
    }

    fn semantics(&self) -> TerminationSemantics {
        semantics()
    }

    async fn launch(
        &self,
        spec: &ServerSpec,
        _: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        let launched = spec.program().map_or_else(
            || Err(io::Error::other("this launcher knows no default command")),
            |program| start(command(program, spec)),
        );
        launched.map_err(|error| {
            let kind = LaunchErrorKind::backend("the process could not be started", error);
            LaunchError::new(self.name(), spec, kind)
        })
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        Ok(ReapReport::new())
    }
}

pub(crate) fn command(program: &OsStr, spec: &ServerSpec) -> Command {
    let mut command = Command::new(program);
    command
        .args(spec.args())
        .env_clear()
        .envs(spec.env().resolve(std::env::vars_os()))
        .current_dir(spec.cwd().unwrap_or(".".as_ref()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn start(mut command: Command) -> io::Result<LaunchedServer> {
    let mut child = command.spawn()?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        unreachable!("all three are piped")
    };
    // From here on, dropping the terminator's owner ends the process.
    let terminator = Arc::new(BareServer::watch(child));
    let reader = |fd: OwnedFd| pipe::Receiver::from_owned_fd(fd);
    let streams = (|| {
        let stdin = pipe::Sender::from_owned_fd(stdin.into())?;
        io::Result::Ok((stdin, reader(stdout.into())?, reader(stderr.into())?))
    })();
    let (stdin, stdout, stderr) = streams.inspect_err(|_| terminator.kill_now())?;
    Ok(LaunchedServer::new(
        stdin,
        stdout,
        Some(Box::new(stderr)),
        terminator,
    ))
}

#[derive(Debug)]
struct BareServer {
    pid: Pid,
    /// Whether the pid may belong to somebody else by now. Locked to signal.
    reaped: Arc<Mutex<bool>>,
    exit: watch::Receiver<Option<ExitStatus>>,
}

impl BareServer {
    /// Waits for the process in a thread, so that no runtime is needed to end it.
    fn watch(mut child: Child) -> Self {
        let pid = Pid::from_raw(child.id() as i32);
        let reaped = Arc::new(Mutex::new(false));
        let (tell, exit) = watch::channel(None);
        let lock = Arc::clone(&reaped);
        thread::spawn(move || {
            // Seen but not reaped: until then the pid cannot be reused.
            let seen = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            while waitid(Id::Pid(pid), seen) == Err(nix::errno::Errno::EINTR) {}
            let mut reaped = lock.lock().unwrap();
            *reaped = true;
            let status = child.wait().map_or(ExitStatus::Unknown, |status| {
                use std::os::unix::process::ExitStatusExt;
                let signal = status.signal().map(ExitStatus::Signal);
                let exit = status.code().map(ExitStatus::Code).or(signal);
                exit.unwrap_or(ExitStatus::Unknown)
            });
            let _ = tell.send(Some(status));
        });
        Self { pid, reaped, exit }
    }

    fn signal(&self, signals: &[Signal]) -> Result<(), StepError> {
        let reaped = self.reaped.lock().unwrap();
        let signals = if *reaped { &[] } else { signals };
        for signal in signals {
            kill(self.pid, *signal).map_err(|errno| StepError::new("signal the process", errno))?;
        }
        Ok(())
    }
}

#[async_trait]
impl ProcessTerminator for BareServer {
    fn identity(&self) -> ServerIdentity {
        ServerIdentity::process(self.pid.as_raw() as u32, None)
    }

    fn semantics(&self) -> TerminationSemantics {
        semantics()
    }

    async fn exited(&self) -> ExitStatus {
        let mut exit = self.exit.clone();
        let exit = exit.wait_for(Option::is_some).await;
        let exit = exit.map_or(None, |exit| *exit);
        exit.unwrap_or(ExitStatus::Unknown)
    }

    async fn request_end(&self) -> Result<(), StepError> {
        self.signal(&[Signal::SIGTERM, Signal::SIGCONT])
    }

    async fn force_end(&self) -> Result<(), StepError> {
        self.signal(&[Signal::SIGKILL])
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        self.exited().await;
        Ok(Gone::proven_by(Evidence::Reaped))
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        let alive = self.exit.borrow().is_none();
        Ok(alive
            .then(|| Remnant::process(self.pid.as_raw() as u32, "server"))
            .into_iter()
            .collect())
    }

    fn kill_now(&self) {
        let _ = self.signal(&[Signal::SIGKILL]);
    }
}
