//! Processes that look like servers, and are nobody's.

use std::process::{Child, Command, Stdio};

use mcp_lifecycle_core::launch::ServerSpec;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::reap;
use crate::alive::AliveConn;
use crate::failure::{Check, Failure};
use crate::stage::Stage;

/// A child of this process and an orphan, both started with the command line of a
/// server and by nobody's launcher.
pub(in crate::experiments) async fn strangers_are_spared(stage: &Stage) -> Check {
    if !stage.subject.fixture.runs_here() {
        let why = "where the fixture runs, the kit can start nobody else";
        return Err(Failure::NotApplicable(why.to_owned()));
    }
    let spec = stage.spec()?;
    let (_server, _process) = stage.start_one(&spec).await?;
    let mut child = Stranger(command("exec \"$0\" \"$@\"", &spec).spawn()?);
    let known = stage.listener.accept("server", stage.limit()).await?;
    // The shell ends at once, and leaves it to whoever takes orphans.
    command("\"$0\" \"$@\" &", &spec).spawn()?.wait()?;
    let orphan = stage.listener.accept("server", stage.limit()).await?;
    let spared = async {
        reap(stage).await?;
        for (who, stranger) in [("a child", &known), ("an orphan", &orphan)] {
            let pinged = stranger.ping(stage.limit()).await;
            pinged.map_err(|error| {
                let whose = "of somebody else, with the command line of a server, after the search";
                Failure::from(error).during(format_args!("{who} {whose}"))
            })?;
        }
        Ok(())
    };
    let spared = spared.await;
    child.end()?;
    end(&orphan);
    spared
}

fn command(script: &str, spec: &ServerSpec) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script);
    command.args(spec.program()).args(spec.args());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// A child that is ended with its value.
struct Stranger(Child);

impl Stranger {
    fn end(&mut self) -> std::io::Result<()> {
        self.0.kill()?;
        self.0.wait().map(drop)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Ends a stranger that has connected, and is nobody's child any more.
fn end(stranger: &AliveConn) {
    let pid = stranger.pid_here().and_then(|pid| pid.try_into().ok());
    if let Some(pid) = pid.filter(|_| !stranger.is_dead()) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}
