//! The start of every role of this program, and its language.

use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Command};
use std::{env, fs};

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::launch::{ErrorChain, ServerLauncher};
use tokio::runtime::{Builder, Runtime};

/// Where the observers of the servers listen, one each, and one more.
pub(crate) const OBSERVERS: &str = "MCP_SOAK_OBSERVERS";
/// The pid that holds a PID namespace which belongs to no server.
pub(crate) const HOLDER: &str = "MCP_SOAK_HOLDER";
/// The cgroup to enter first.
pub(crate) const CGROUP: &str = "MCP_SOAK_CGROUP";
/// The user to become after that.
pub(crate) const USER: &str = "MCP_SOAK_USER";

/// Enters the cgroup, and starts over as the user that this process is to be.
pub(crate) fn settle() {
    if let Some(cgroup) = env::var_os(CGROUP)
        && let Err(error) = fs::write(Path::new(&cgroup).join("cgroup.procs"), "0")
    {
        panic!("cannot enter {cgroup:?}: {error}");
    }
    if let Some(user) = env::var(USER).ok().and_then(|user| user.parse().ok()) {
        let error = Command::new("/proc/self/exe")
            .args(env::args_os().skip(1))
            .env_remove(USER)
            .env_remove(CGROUP)
            .uid(user)
            .gid(user)
            .exec();
        panic!("cannot become {user}: {error}");
    }
}

/// Looks for orphans once, as the next host would.
pub(crate) fn reap() {
    let runtime = runtime(false);
    match runtime.block_on(LocalLauncher::new().reap_orphans()) {
        Ok(report) => say(&format!("reaped {} {report:?}", report.failed.len())),
        Err(error) => say(&format!("failed {}", ErrorChain(&error))),
    }
}

/// A runtime of one thread or of several.
pub(crate) fn runtime(threads: bool) -> Runtime {
    let mut builder = match threads {
        true => Builder::new_multi_thread(),
        false => Builder::new_current_thread(),
    };
    let runtime = builder.worker_threads(2).enable_all().build();
    runtime.unwrap_or_else(|error| panic!("no runtime: {error}"))
}

/// Tells the supervisor.
pub(crate) fn say(line: &str) {
    let mut out = io::stdout().lock();
    // A supervisor that has gone ends this process in another way.
    let _ = writeln!(out, "{}", line.replace('\n', " "));
    let _ = out.flush();
}

/// Says `line`, and waits for the answer; exits when nobody answers any more.
pub(crate) fn ask(line: &str) -> String {
    say(line);
    let mut answer = String::new();
    match io::stdin().lock().read_line(&mut answer) {
        Ok(1..) => answer.trim_end().to_owned(),
        _ => process::exit(0),
    }
}
