//! A host that is started only to be killed.
//!
//! A launcher cannot cross an exec, so the kit's user provides the program: one
//! that calls [`run_if_asked`] with the same launcher, and a [`HostCommand`]
//! that starts it.

use std::env;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{self, Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use mcp_lifecycle_core::launch::{LaunchContext, ServerLauncher};
use serde_json::{Value, json};

use crate::failure::{Check, Failure};
use crate::server::{Drains, Server};
use crate::{Fixture, FixtureCommand};

/// Tells a process that it is a host, and what to do.
const JOB: &str = "MCP_CONFORMANCE_HOST";

/// How a host is started.
#[derive(Clone)]
pub struct HostCommand {
    make: Arc<dyn Fn() -> Command + Send + Sync>,
}

impl HostCommand {
    /// A command that starts a program that calls [`run_if_asked`].
    pub fn new(make: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        Self {
            make: Arc::new(make),
        }
    }

    /// This test binary once more, to run the test `name`, which calls
    /// [`run_if_asked`] and does nothing else.
    ///
    /// # Errors
    ///
    /// When this program's path is unknown.
    pub fn this_test(name: &str) -> io::Result<Self> {
        let (program, name) = (env::current_exe()?, name.to_owned());
        Ok(Self::new(move || {
            let mut command = Command::new(&program);
            command.args(["--exact", &name, "--nocapture", "--include-ignored"]);
            command
        }))
    }

    /// Starts a host that launches a fixture so many times.
    pub(crate) fn start(&self, observer: &str, fixture: &str, servers: u32) -> io::Result<Host> {
        let job = json!({"observer": observer, "fixture": fixture, "servers": servers});
        let child = (self.make)()
            .env(JOB, job.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Host { child })
    }
}

impl fmt::Debug for HostCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostCommand").field(&(self.make)()).finish()
    }
}

/// A running host.
pub(crate) struct Host {
    child: Child,
}

impl Host {
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

/// Does nothing, unless the kit has started this process as a host. Then it
/// launches what the kit asks for and never returns.
pub async fn run_if_asked(launcher: Arc<dyn ServerLauncher>, fixture: &FixtureCommand) {
    let Ok(job) = env::var(JOB) else { return };
    let done = match serde_json::from_str(&job) {
        Ok(job) => launch_all(&*launcher, fixture, &job).await,
        Err(error) => Err(error.into()),
    };
    match done {
        // Only the kit's signal, or its end, ends this process.
        Ok(_servers) => std::future::pending().await,
        Err(failure) => {
            eprintln!("conformance host: {failure}");
            process::exit(1);
        }
    }
}

async fn launch_all(
    launcher: &dyn ServerLauncher,
    command: &FixtureCommand,
    job: &Value,
) -> Check<Vec<(Server, Drains)>> {
    let text = |name: &str| job[name].as_str().unwrap_or_default();
    let observer = text("observer");
    let Some(fixture) = Fixture::named(text("fixture")) else {
        return Err(Failure::new("no such fixture"));
    };
    let args = fixture.args().iter().copied();
    let spec = command.spec(args.chain(["--alive", observer]))?;
    report_to(observer)?;
    let mut servers = Vec::new();
    for _ in 0..job["servers"].as_u64().unwrap_or(0) {
        let mut server = Server::own(launcher.launch(&spec, &LaunchContext::new()).await?);
        server
            .say(fixture.script, std::time::Duration::from_secs(10))
            .await?;
        let drains = server.drain();
        servers.push((server, drains));
    }
    Ok(servers)
}

/// Says hello as the host, and exits when the kit is gone.
fn report_to(observer: &str) -> io::Result<()> {
    // Both are closed on exec: no server inherits the host's own connection.
    match observer.split_once(':') {
        Some(("unix", path)) => exit_at_the_end_of(UnixStream::connect(path)?),
        Some(("tcp", address)) => exit_at_the_end_of(TcpStream::connect(address)?),
        _ => Err(io::Error::other("no such observer")),
    }
}

fn exit_at_the_end_of(mut kit: impl Read + Write + Send + 'static) -> io::Result<()> {
    kit.write_all(format!("hello host {}\n", process::id()).as_bytes())?;
    thread::spawn(move || {
        let _ = kit.read_to_end(&mut Vec::new());
        process::exit(0);
    });
    Ok(())
}
