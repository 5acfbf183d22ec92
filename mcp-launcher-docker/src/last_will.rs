//! The last will of a host: a process beside it that removes its containers
//! when it has died.
//!
//! The host holds the other end of the process's standard input, so the kernel
//! tells of any death. It is the program of `init/` once more, started from the
//! lease directory: a stubborn server ends without an init of ours in its
//! container and without another host's sweep. It needs a daemon behind a Unix
//! socket of this machine.
//!
//! ```text
//!  create ──▶ included ── proven gone ──▶ excluded
//!                │ the host dies
//!                ▼
//!        grace, for those that leave at the end of input ──▶ DELETE, by force
//! ```
//!
//! Not guaranteed: what is killed together with the host (a cgroup, a container,
//! the machine) is no help to it; then the next sweep is.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::warn;

use crate::supervised;

/// How long servers have to leave after the end of their input.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// As many as the program has room for.
const MOST: usize = 1024;

/// The process, while the host lives.
///
/// # Drop
///
/// It ends: nobody is included any more.
#[derive(Debug)]
pub(crate) struct LastWill {
    process: Mutex<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    stdin: ChildStdin,
    included: usize,
}

/// A container that is to be removed when the host dies.
///
/// # Drop
///
/// It is not, any more.
#[derive(Debug)]
pub(crate) struct Included {
    will: Arc<LastWill>,
    id: String,
}

/// Whether this build has the program.
pub(crate) fn is_possible() -> bool {
    cfg!(init_available)
}

impl LastWill {
    /// Starts the process, for the daemon behind `socket`.
    pub(crate) fn begin(directory: &Path, socket: &Path) -> io::Result<Self> {
        let (child, stdin) = spawn(directory, socket, GRACE)?;
        let process = Mutex::new(Process {
            child,
            stdin,
            included: 0,
        });
        Ok(Self { process })
    }

    /// Includes a container; `None` when there is no room, or nobody there.
    pub(crate) fn include(self: &Arc<Self>, id: &str) -> Option<Included> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if process.included >= MOST {
            return None;
        }
        if let Err(error) = writeln!(process.stdin, "+{id}") {
            warn!(%error, "the process that would outlive this host has ended");
            return None;
        }
        process.included += 1;
        Some(Included {
            will: Arc::clone(self),
            id: id.to_owned(),
        })
    }
}

impl Drop for LastWill {
    fn drop(&mut self) {
        let process = self.process.get_mut();
        let process = process.unwrap_or_else(PoisonError::into_inner);
        // Nobody is included: nothing is left undone.
        let _ = process.child.kill();
        let _ = process.child.wait();
    }
}

impl Drop for Included {
    fn drop(&mut self) {
        let process = self.will.process.lock();
        let mut process = process.unwrap_or_else(PoisonError::into_inner);
        process.included -= 1;
        let _ = writeln!(process.stdin, "-{}", self.id);
    }
}

fn spawn(directory: &Path, socket: &Path, grace: Duration) -> io::Result<(Child, ChildStdin)> {
    let program = supervised::file_in(directory)?;
    let mut command = Command::new(program);
    command
        .arg("--last-will")
        .arg(socket)
        .arg(grace.as_millis().to_string())
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // What is sent to the host's group is not for it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    let stdin = stdin.ok_or_else(|| io::Error::other("it has no standard input"))?;
    Ok((child, stdin))
}

#[cfg(all(test, init_available))]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::fake::FakeEngine;

    #[test]
    fn who_is_included_at_the_end_is_removed_and_nobody_else() {
        let (heard, requests) = mpsc::channel();
        let daemon = FakeEngine::start(move |request| {
            heard.send(request.to_owned()).unwrap();
            Some((204, String::new()))
        });
        let directory = tempfile::tempdir().unwrap();
        let (mut child, mut stdin) = spawn(
            directory.path(),
            &daemon.socket(),
            Duration::from_millis(10),
        )
        .unwrap();
        let id = |n: u8| format!("{n:064x}");
        for n in 0..40 {
            writeln!(stdin, "+{}", id(n)).unwrap();
        }
        stdin.write_all(b"+too short\n\n").unwrap();
        for n in (0..40).step_by(2) {
            writeln!(stdin, "-{}", id(n)).unwrap();
        }
        assert!(requests.try_recv().is_err(), "the host lives");
        drop(stdin);
        assert!(child.wait().unwrap().success());
        let mut removed: Vec<_> = requests.try_iter().collect();
        removed.sort();
        let expected = (1..40).step_by(2);
        let order = |n| format!("DELETE /containers/{}?force=1&v=1 HTTP/1.1", id(n));
        assert_eq!(removed, expected.map(order).collect::<Vec<_>>());
    }

    #[test]
    fn it_ends_with_whoever_needs_it() {
        let directory = tempfile::tempdir().unwrap();
        let will = LastWill::begin(directory.path(), Path::new("/no/such/socket")).unwrap();
        let will = Arc::new(will);
        let included = will.include(&"a".repeat(64)).unwrap();
        let pid = will.process.lock().unwrap().child.id();
        drop(will);
        drop(included);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
