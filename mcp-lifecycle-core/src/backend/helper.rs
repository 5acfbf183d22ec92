//! Runs programs that provide credentials.

use std::io;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

const LONGEST: u64 = 1 << 20;

/// A running helper. Dropping it kills its process group; on macOS the helper alone.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.0.id().and_then(|id| i32::try_from(id).ok()) {
            let group = nix::unistd::Pid::from_raw(group);
            if is_child(group) {
                let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
            }
        }
    }
}

/// Returns whether this is our unreaped child. A host may ignore SIGCHLD or reap all children, and
/// then the pid may belong to another process.
#[cfg(all(unix, not(target_vendor = "apple")))]
fn is_child(pid: nix::unistd::Pid) -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::Pid(pid), look).is_ok()
}

#[cfg(target_vendor = "apple")]
fn is_child(_: nix::unistd::Pid) -> bool {
    false
}

/// Runs a helper in its own process group, writes `input` to it, and reads its answer, a MiB
/// at most. It may be secret.
///
/// Needs a tokio runtime with I/O. There is no time limit: dropping the future kills the helper and
/// its process group.
pub async fn ask(mut command: Command, input: &[u8]) -> io::Result<(ExitStatus, Vec<u8>)> {
    command.kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::null());
    #[cfg(unix)]
    command.process_group(0);
    let mut helper = Helper(command.spawn()?);
    let (stdin, stdout) = (helper.0.stdin.take(), helper.0.stdout.take());
    let tell = async {
        if let Some(mut stdin) = stdin {
            // A helper that reads nothing may still answer.
            let _ = stdin.write_all(input).await;
        }
    };
    let mut said = Vec::new();
    let read = async {
        match stdout {
            Some(stdout) => stdout.take(LONGEST).read_to_end(&mut said).await,
            None => Ok(0),
        }
    };
    let ((), read) = tokio::join!(tell, read);
    let status = helper.0.wait().await?;
    read.map(|_| (status, said))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn an_answer_is_read_beside_a_complaint() {
        // More than a pipe holds of each.
        let script = "cat; head -c 200000 /dev/zero >&2; head -c 200000 /dev/zero; exit 3";
        let (status, said) = ask(sh(script), b"a question").await.unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(said.starts_with(b"a question"));
        assert_eq!(said.len(), 200_000 + 10);
    }

    #[tokio::test]
    async fn a_helper_ends_with_its_future_and_so_does_what_it_has_started() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let script = format!("exec 9>{}; sleep 1000 & sleep 1000", fifo.display());
        let asked = tokio::spawn(async move { ask(sh(&script), b"").await });
        let opened = tokio::task::spawn_blocking(move || std::fs::File::open(fifo));
        let mut fifo = opened.await.unwrap().unwrap();
        asked.abort();
        let end = tokio::task::spawn_blocking(move || io::Read::read(&mut fifo, &mut [0]));
        let end = tokio::time::timeout(Duration::from_secs(10), end).await;
        assert_eq!(end.expect("an end of file").unwrap().unwrap(), 0);
    }

    #[tokio::test]
    async fn what_a_helper_leaves_running_is_not_waited_for() {
        let script = "echo oops >&2; sleep 20 >/dev/null & echo answer";
        let asked = tokio::time::timeout(Duration::from_secs(10), ask(sh(script), b"")).await;
        let (_, said) = asked.expect("an answer in time").unwrap();
        assert_eq!(said, b"answer\n");
    }

    #[tokio::test]
    async fn a_number_that_somebody_else_waited_for_is_not_killed() {
        let child = Command::new("true").spawn().unwrap();
        let pid = nix::unistd::Pid::from_raw(child.id().unwrap().try_into().unwrap());
        assert!(is_child(pid));
        nix::sys::wait::waitpid(pid, None).unwrap();
        assert!(child.id().is_some(), "the handle does not know");
        assert!(!is_child(pid));
    }
}
