//! Containers that a server starts, which are not its descendants. `docs/contain-reference.md` has the
//! design.

mod companion;
mod left;
mod reply;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mcp_tree::Wrapper;

use crate::failure::Failure;
use crate::options::{Containers, Options};
use companion::Order;
use reply::{Reply, sent};

pub(crate) use companion::run as attend;
pub(crate) use left::{end, forget, look};

/// The first argument of a companion, which is no verb.
pub(crate) const ROLE: &str = "--companion";

/// Time limit for the companion's reply, which needs no engine.
const LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn may_accompany(when: Containers, command: &[OsString]) -> bool {
    match when {
        Containers::Never => false,
        Containers::Auto => names_an_engine(command),
        Containers::Always => true,
    }
}

/// Starts a companion, if wanted, and makes the wrapper start the command in its reply.
pub(crate) fn accompany(options: &Options, wrapper: &mut Wrapper) -> Result<(), Failure> {
    if !may_accompany(options.containers, &options.command) {
        return Ok(());
    }
    let insists = options.containers == Containers::Always;
    let name = wrapper.name.as_ref().or(wrapper.label.as_ref());
    let order = Order {
        grace: wrapper.grace,
        insists,
        name: name.cloned().unwrap_or_else(|| wrapper.program.clone()),
        command: options.command.clone(),
    };
    let why = match ask(&order, wrapper.path.as_ref()) {
        Ok((socket, Reply::Tracked { command, env })) => {
            let mut words = command.into_iter();
            wrapper.program = words.next().unwrap_or_default();
            wrapper.args = words.collect();
            wrapper.env.extend(env);
            wrapper.companion = Some(Arc::new(socket));
            return Ok(());
        }
        Ok((_, Reply::Nothing)) => return Ok(()),
        Ok((_, Reply::Untracked(why))) => why,
        Err(error) => format!("the process that would do it could not be started: {error}"),
    };
    let program = wrapper.program.display();
    let failure = Failure::wrapper(format_args!(
        "the containers that {program} starts are not ended with it: {why}"
    ));
    if insists {
        return Err(failure);
    }
    // Prefer a server with possible leftovers to none, unless `--containers` is given.
    failure.say();
    Ok(())
}

fn ask(order: &Order, path: Option<&OsString>) -> io::Result<(OwnedFd, Reply)> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("mcp-contain")
        .arg(ROLE)
        .arg(&order.name)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        // The host's log ends only when all its holders are gone.
        .stderr(Stdio::null())
        .process_group(0);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let mut child = command.spawn()?;
    // Closes our copy of the companion's socket.
    drop(command);
    ours.set_read_timeout(Some(LIMIT))?;
    ours.set_write_timeout(Some(LIMIT))?;
    let ordered = ours.write_all(&sent(order)?);
    // It forks and exits at once. A host may have reaped it.
    let _ = child.wait();
    ordered?;
    let reply = Reply::read(&mut ours)?;
    Ok((ours.into(), reply))
}

/// Programs that create containers, and words in names of such packages.
const ENGINES: [&str; 4] = ["docker", "podman", "nerdctl", "testcontainers"];

/// Returns whether a word mentions a container engine: by itself, in a path, in a package name, or
/// in a shell script. A false match costs one idle process.
fn names_an_engine(words: &[OsString]) -> bool {
    words.iter().any(|word| {
        let word = word.to_string_lossy().to_ascii_lowercase();
        word.split(|c: char| !c.is_ascii_alphanumeric())
            .any(|part| ENGINES.contains(&part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &str) -> bool {
        names_an_engine(&line.split('|').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn an_engine_is_named_by_a_program_a_path_a_package_or_a_script() {
        for line in [
            "docker|run|-i|--rm|mcp/time",
            "/usr/bin/podman|run|x",
            "sh|-c|exec docker run -i x",
            "npx|-y|@ckreiling/mcp-server-docker",
            "uvx|docker-mcp",
            "docker-compose|run|x",
            "env|DOCKER=1|x",
        ] {
            assert!(names(line), "{line}");
        }
    }

    #[test]
    fn what_only_looks_like_one_names_none() {
        for line in [
            "npx|-y|@modelcontextprotocol/server-everything",
            "python3|-m|dockerless",
            "dockery",
            "",
        ] {
            assert!(!names(line), "{line}");
        }
    }
}
