//! Programs that provide credentials or carry a connection.

use std::collections::VecDeque;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

const LONGEST_ANSWER: u64 = 1 << 20;

/// Number of stderr lines that are kept, the longest read, and the kept part of a line.
const LINES: usize = 3;
const LINE: u64 = 4096;
const KEPT: usize = 300;

/// Longest wait for the last stderr output after the connection ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A running program in a process group of its own, which the terminal's signals do not reach.
/// Dropping it kills that group.
#[derive(Debug)]
pub struct Program(Child);

/// The last stderr output of a program.
#[derive(Debug, Clone)]
pub struct LastWords(watch::Receiver<VecDeque<String>>);

impl Program {
    /// Starts a program that carries a connection on stdin and stdout, and logs its stderr.
    ///
    /// Needs a tokio runtime with I/O.
    pub fn connect(mut command: Command) -> io::Result<(Self, ChildStdout, ChildStdin, LastWords)> {
        let name = command.as_std().get_program().to_string_lossy();
        let name = name.into_owned();
        let mut program = Self::start(command.stderr(Stdio::piped()))
            .map_err(|error| io::Error::new(error.kind(), format!("`{name}`: {error}")))?;
        let child = &mut program.0;
        let streams = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let (Some(stdout), Some(stdin), Some(stderr)) = streams else {
            return Err(io::Error::other("a standard stream is missing"));
        };
        let (sender, words) = watch::channel(VecDeque::new());
        drop(tokio::spawn(listen(stderr, name, sender)));
        Ok((program, stdout, stdin, LastWords(words)))
    }

    fn start(command: &mut Command) -> io::Result<Self> {
        command.kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        #[cfg(unix)]
        command.process_group(0);
        command.spawn().map(Self)
    }

    /// Waits for its exit. Cancel safe.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.0.id().and_then(|id| i32::try_from(id).ok())
            && let Some(group) = rustix::process::Pid::from_raw(group)
            && is_child(group)
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// Returns whether this is our unreaped child. A host may ignore SIGCHLD or reap all children, and
/// then the pid may belong to another process.
#[cfg(unix)]
fn is_child(pid: rustix::process::Pid) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid), look).is_ok()
}

impl LastWords {
    /// Waits briefly for the end of its stderr and returns the last lines. Cancel safe.
    pub async fn hear(&mut self) -> Option<String> {
        let _ = timeout(LAST_WORDS, self.0.wait_for(|_| false)).await;
        let lines: Vec<_> = self.0.borrow().iter().cloned().collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}

async fn listen(stderr: ChildStderr, program: String, words: watch::Sender<VecDeque<String>>) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    while let Ok(1..) = (&mut stderr).take(LINE).read_until(b'\n', &mut line).await {
        let text = String::from_utf8_lossy(line.trim_ascii());
        if !text.is_empty() {
            tracing::info!(peer = program, "{text}");
            words.send_modify(|lines| {
                lines.push_back(text.chars().take(KEPT).collect());
                if lines.len() > LINES {
                    lines.pop_front();
                }
            });
        }
        line.clear();
    }
}

/// Runs a program, writes `input` to it, and reads its answer, a MiB at most. It may be secret.
///
/// Needs a tokio runtime with I/O. There is no time limit: dropping the future kills the program
/// and its process group.
pub async fn ask(mut command: Command, input: &[u8]) -> io::Result<(ExitStatus, Vec<u8>)> {
    let mut helper = Program::start(command.stderr(Stdio::null()))?;
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
            Some(stdout) => stdout.take(LONGEST_ANSWER).read_to_end(&mut said).await,
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
        let pid = rustix::process::Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
        assert!(is_child(pid));
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
        assert!(child.id().is_some(), "the handle does not know");
        assert!(!is_child(pid));
    }
}
