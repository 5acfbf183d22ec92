//! Faults of launches.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::*;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncWrite;

use crate::bare::{self, BareLauncher};
use crate::terminator::PlantedServer;

/// The launcher of the guide with a fault.
#[derive(Debug, Clone)]
pub(crate) struct Planted {
    fault: String,
    started: Arc<Mutex<Vec<Started>>>,
}

/// A command line that was started, and as whom.
#[derive(Debug)]
struct Started(Vec<u8>, String);

pub(crate) fn semantics(fault: &str) -> TerminationSemantics {
    let containment = match fault {
        "kills-the-main-process-only" => Containment::new("planted", Reach::Tree),
        "helpers-die-later" => Containment::new("planted", Reach::Group),
        "outlives-its-host" => {
            Containment::new("planted", Reach::Process).host_death(Reach::Process)
        }
        _ if fault.starts_with("placed-after") => Containment::new("planted", Reach::Process)
            .host_death(Reach::Process)
            .atomic_placement(),
        _ => Containment::new("planted", Reach::Process),
    };
    let semantics = TerminationSemantics::new(containment);
    semantics.stdin_eof().polite_signal()
}

impl Planted {
    pub(crate) fn new(fault: String) -> Self {
        let started = Arc::default();
        Self { fault, started }
    }

    async fn start(&self, spec: &ServerSpec) -> io::Result<LaunchedServer> {
        let program = spec
            .program()
            .ok_or_else(|| io::Error::other("no program"))?;
        let mut command = bare::command(program, spec);
        match &*self.fault {
            "helpers-die-later" => drop(command.process_group(0)),
            "keeps-a-descriptor" => std::mem::forget(File::open("/dev/null")?),
            "leaves-a-zombie" => drop(Command::new("/bin/true").stdin(Stdio::null()).spawn()?),
            "ignores-the-directory" => drop(command.current_dir(".")),
            "passes-the-environment" => drop(command.envs(std::env::vars_os())),
            "merges-standard-error" => command = by_shell("exec \"$0\" \"$@\" 2>&1", spec),
            "input-is-dev-null" => command = by_shell("exec \"$0\" \"$@\" </dev/null", spec),
            "server-holds-its-own-input" => {
                command = by_shell("exec \"$0\" \"$@\" 9>/proc/self/fd/0", spec);
            }
            "joins-its-arguments" => {
                let words: Vec<_> = spec
                    .args()
                    .iter()
                    .map(|word| word.to_string_lossy())
                    .collect();
                let line = format!("exec {} {}", program.to_string_lossy(), words.join(" "));
                command = by_shell(&line, spec);
            }
            "placed-after-an-exec" if fs::exists(program)? => {
                command = by_shell("exec setpriv --pdeathsig KILL -- \"$0\" \"$@\"", spec);
            }
            "placed-after-2-ms" => tie(&mut command, Duration::from_millis(2)),
            "blocks" => thread::sleep(Duration::from_millis(500)),
            _ if self.fault.starts_with("tied-to") => tie(&mut command, Duration::ZERO),
            _ => {}
        }
        let runtime = tokio::runtime::Handle::current();
        let start = move || {
            let _runtime = runtime.enter();
            bare::start(command)
        };
        match &*self.fault {
            "tied-to-a-thread-that-ends" => thread::spawn(start)
                .join()
                .map_err(|_| io::ErrorKind::Other)?,
            "tied-to-a-pool-thread" => tokio::task::spawn_blocking(start).await?,
            _ => start(),
        }
    }

    /// Starts a server that is nobody's while nobody waits for it.
    async fn start_in_the_background(&self, spec: &ServerSpec) -> io::Result<LaunchedServer> {
        let (this, spec) = (self.clone(), spec.clone());
        let (sender, receiver) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            if let Err(unwanted) = sender.send(this.start(&spec).await) {
                std::mem::forget(unwanted);
            }
        });
        tokio::task::yield_now().await;
        receiver.await.map_err(io::Error::other)?
    }
}

#[async_trait]
impl ServerLauncher for Planted {
    fn name(&self) -> &str {
        "planted"
    }

    fn semantics(&self) -> TerminationSemantics {
        semantics(&self.fault)
    }

    async fn launch(
        &self,
        spec: &ServerSpec,
        _: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        let launched = match &*self.fault {
            "cancelled-launch-goes-on" => self.start_in_the_background(spec).await,
            _ => self.start(spec).await,
        };
        let launched = match launched {
            Ok(launched) => launched,
            Err(_) if self.fault == "hangs-for-a-missing-program" => std::future::pending().await,
            Err(error) => {
                let kind = LaunchErrorKind::backend("the process could not be started", error);
                return Err(LaunchError::new(BareLauncher.name(), spec, kind));
            }
        };
        let pid = launched.terminator().identity().to_string();
        self.started
            .lock()
            .unwrap()
            .push(Started(command_line(spec), pid));
        let launched = launched.map_terminator(|inner| PlantedServer::around(inner, &self.fault));
        if self.fault != "keeps-standard-input-open" {
            return Ok(launched);
        }
        let parts = launched.into_parts();
        let stdin = KeptOpen(Some(parts.stdin));
        Ok(LaunchedServer::new(
            stdin,
            parts.stdout,
            parts.stderr,
            parts.terminator,
        ))
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        if self.fault == "reaps-by-command-line" {
            let started = self.started.lock().unwrap();
            for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
                let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
                let pid = process.file_name().to_string_lossy().into_owned();
                let is_known = started.iter().any(|Started(of, _)| *of == line);
                let is_ours = started
                    .iter()
                    .any(|Started(_, ours)| *ours == format!("pid {pid}"));
                if let Ok(pid) = pid.parse()
                    && is_known
                    && !is_ours
                {
                    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                }
            }
        }
        Ok(ReapReport::new())
    }
}

/// The server by way of a shell.
fn by_shell(script: &str, spec: &ServerSpec) -> Command {
    let words: [OsString; 2] = ["-c".into(), script.into()];
    let words = words.into_iter().chain(spec.program().map(OsStr::to_owned));
    let shell = ServerSpec::builder(spec.name(), "/bin/sh").args(words.chain(spec.args().to_vec()));
    // What the shell gets besides is what the server would get.
    let shell = shell.build().unwrap();
    let mut command = bare::command("/bin/sh".as_ref(), &shell);
    command
        .env_clear()
        .envs(spec.env().resolve(std::env::vars_os()));
    command.current_dir(spec.cwd().unwrap_or(".".as_ref()));
    command
}

/// Has the server killed when the thread that starts it ends, after this time.
fn tie(command: &mut Command, after: Duration) {
    let tie = move || {
        thread::sleep(after);
        Ok(set_pdeathsig(Signal::SIGKILL)?)
    };
    // SAFETY: it sleeps and makes one system call.
    unsafe { command.pre_exec(tie) };
}

fn command_line(spec: &ServerSpec) -> Vec<u8> {
    let words = spec
        .program()
        .into_iter()
        .chain(spec.args().iter().map(|word| &**word));
    words
        .flat_map(|word| [word.as_bytes(), b"\0"].concat())
        .collect()
}

/// A pipe that nobody closes.
struct KeptOpen(Option<BoxWrite>);

impl Drop for KeptOpen {
    fn drop(&mut self) {
        std::mem::forget(self.0.take());
    }
}

impl KeptOpen {
    fn pipe(self: Pin<&mut Self>) -> Pin<&mut BoxWrite> {
        Pin::new(self.get_mut().0.as_mut().unwrap())
    }
}

impl AsyncWrite for KeptOpen {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.pipe().poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pipe().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pipe().poll_shutdown(cx)
    }
}
