//! A host that is started only to be killed.
//!
//! A launcher cannot cross an exec, so a host is this very program once more, and makes
//! a launcher of its own.

use std::io::{self, Read, Write};
use std::net::TcpStream;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::process::{self, Child, ExitCode, Stdio};
use std::time::Duration;
use std::{env, thread};

use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher};
use serde_json::{Value, json};

use crate::cell;
use crate::failure::{Check, Failure};
use crate::fixture::Fixture;
use crate::kit::Kit;
use crate::server::{Drains, Server};
use crate::stage::Stage;

/// Tells a process that it is a host, and what to do.
const JOB: &str = "MCP_CONFORMANCE_HOST";

/// A running host.
pub(crate) struct Host {
    child: Child,
}

impl Host {
    /// Starts a host that launches the stage's fixture so many times.
    pub(crate) fn start(stage: &Stage, servers: u32) -> io::Result<Self> {
        Self::start_by(stage, servers, Value::Null)
    }

    /// Starts a host whose first thread ends before it launches one server. Its launcher has to declare what that of the stage does.
    #[cfg(unix)]
    pub(crate) fn start_headless(stage: &Stage) -> io::Result<Self> {
        let declared = declared(&*stage.subject.launcher);
        Self::start_by(stage, 1, declared.into())
    }

    fn start_by(stage: &Stage, servers: u32, headless: Value) -> io::Result<Self> {
        let job = json!({
            "headless": headless,
            "kit": stage.subject.kit,
            "observer": stage.listener.address(),
            "fixture": stage.fixture.name(),
            "servers": servers,
        });
        let mut host = cell::this_program();
        host.env(JOB, job.to_string());
        host.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Self {
            child: host.spawn()?,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, without a word, and reaps it.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// The orders to a host.
pub(crate) struct Job(Value);

impl Job {
    /// The job of this process, if it is a host.
    pub(crate) fn of_this_process() -> Option<Self> {
        let job = env::var(JOB).ok()?;
        Some(Self(serde_json::from_str(&job).unwrap_or_default()))
    }

    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    /// Launches what the kit asks for; only the kit's signal, or its end, ends this.
    pub(crate) fn run(self, kits: &[Kit]) -> ExitCode {
        #[cfg(unix)]
        if self.0["headless"].is_string() {
            return thread::scope(|scope| {
                scope.spawn(|| {
                    while !first_thread_has_ended() {
                        thread::yield_now();
                    }
                    self.serve(kits);
                    process::exit(1)
                });
                match crate::program::exit_main_thread() {}
            });
        }
        self.serve(kits)
    }

    fn serve(&self, kits: &[Kit]) -> ExitCode {
        let failure = match cell::runtime() {
            Ok(runtime) => runtime.block_on(async {
                match self.launch_all(kits).await {
                    Ok(_servers) => std::future::pending().await,
                    Err(failure) => failure,
                }
            }),
            Err(error) => error.into(),
        };
        eprintln!("conformance host: {failure:?}");
        ExitCode::FAILURE
    }

    async fn launch_all(&self, kits: &[Kit]) -> Check<Vec<(Server, Drains)>> {
        let kit = kits.iter().find(|kit| kit.name == self.text("kit"));
        let fixture = Fixture::named(self.text("fixture"));
        let Some((kit, fixture)) = kit.zip(fixture) else {
            return Err(Failure::new("no such kit, or no such fixture"));
        };
        let observer = self.text("observer");
        let args = fixture.args().iter().copied();
        let spec = kit
            .fixture
            .spec(args.chain(["--alive", observer]))
            .build()?;
        let launcher = (kit.launcher)().await;
        report_to(observer, "host")?;
        let headless = self.0["headless"].as_str();
        if headless.is_some() {
            launcher.reap_orphans().await?;
        }
        let mut servers = Vec::new();
        for _ in 0..self.0["servers"].as_u64().unwrap_or(0) {
            let mut server = Server::own(launcher.launch(&spec, &LaunchContext::new()).await?);
            server.say(fixture.script, Duration::from_secs(10)).await?;
            let drains = server.drain();
            servers.push((server, drains));
        }
        let now = declared(&*launcher);
        match headless {
            Some(before) if before != now => {
                return Err(Failure::new(format!("{now}, and not {before}")));
            }
            Some(_) => report_to(observer, "declared")?,
            None => {}
        }
        Ok(servers)
    }
}

/// Returns whether what `/proc` has of the first thread is gone with it.
#[cfg(unix)]
fn first_thread_has_ended() -> bool {
    std::fs::read_to_string("/proc/self/mountinfo").is_err()
}

fn declared(launcher: &dyn ServerLauncher) -> String {
    format!("{:?}", launcher.semantics().containment)
}

/// Says hello in this role, and exits when the kit is gone.
fn report_to(observer: &str, role: &'static str) -> io::Result<()> {
    // Both are closed on exec: no server inherits the host's own connection.
    match observer.split_once(':') {
        #[cfg(unix)]
        Some(("unix", path)) => exit_at_the_end_of(UnixStream::connect(path)?, role),
        Some(("tcp", address)) => exit_at_the_end_of(TcpStream::connect(address)?, role),
        _ => Err(io::Error::other("no such observer")),
    }
}

fn exit_at_the_end_of(mut kit: impl Read + Write + Send + 'static, role: &str) -> io::Result<()> {
    kit.write_all(format!("hello {role} {}\n", process::id()).as_bytes())?;
    thread::spawn(move || {
        let _ = kit.read_to_end(&mut Vec::new());
        process::exit(0);
    });
    Ok(())
}
