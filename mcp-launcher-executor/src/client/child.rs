use mcp_lifecycle_core::lock::Lock;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LEAVE: Duration = Duration::from_secs(5);

/// Time limits for its exit after it closed its output, and for the rest of its stderr, which holds
/// the reason.
const END: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_millis(300);

/// Number of stderr lines that are kept, the longest read, and the kept part of a line.
const LINES: usize = 3;
const LINE: u64 = 4096;
const KEPT: usize = 300;

/// A command. Dropping it kills its process group.
pub(super) struct CommandChild {
    child: Child,
    program: String,
    said: Arc<Lock<VecDeque<String>>>,
    reading: Option<JoinHandle<()>>,
}

impl CommandChild {
    /// Starts it in its own process group, so that the terminal's signals do not reach it.
    pub(super) fn start(
        program: &OsString,
        args: &[OsString],
    ) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let program = program.to_string_lossy().into_owned();
        let mut child = command
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("`{program}`: {error}")))?;
        let missing = || io::Error::other("a standard stream is missing");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let said = Arc::default();
        let reading = child.stderr.take().map(|stderr| {
            let (said, program) = (Arc::clone(&said), program.clone());
            tokio::spawn(async move { read(stderr, &program, &said).await })
        });
        let started = Self {
            child,
            program,
            said,
            reading,
        };
        Ok((started, stdout, stdin))
    }

    /// Returns why it has closed its output, as far as reported in time.
    pub(super) async fn last_words(&mut self) -> String {
        let status = timeout(END, self.child.wait()).await;
        if let Some(reading) = &mut self.reading {
            let _ = timeout(REST, reading).await;
        }
        let mut text = match status {
            Ok(Ok(status)) => format!("`{}` ended with {status}", self.program),
            _ => format!("`{}` closed its standard output", self.program),
        };
        let said = self.said.lock();
        if !said.is_empty() {
            let lines: Vec<_> = said.iter().map(String::as_str).collect();
            let _ = write!(text, " and said: {}", lines.join(" / "));
        }
        text
    }

    pub(super) async fn leave(mut self) {
        if timeout(LEAVE, self.child.wait()).await.is_err() {
            self.kill_group();
            let _ = self.child.kill().await;
        }
    }

    /// Kills its process group, including a shell's children.
    fn kill_group(&self) {
        // The pid is reserved until it is reaped.
        #[cfg(unix)]
        if let Some(pid) = self.child.id().and_then(|pid| pid.try_into().ok()) {
            let group = nix::unistd::Pid::from_raw(pid);
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        }
    }
}

impl Drop for CommandChild {
    fn drop(&mut self) {
        self.kill_group();
    }
}

async fn read(stderr: ChildStderr, program: &str, said: &Lock<VecDeque<String>>) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    while let Ok(read) = (&mut stderr).take(LINE).read_until(b'\n', &mut line).await {
        if read == 0 {
            return;
        }
        let text = String::from_utf8_lossy(line.trim_ascii());
        if !text.is_empty() {
            tracing::info!(peer = program, "{text}");
            let mut said = said.lock();
            if said.len() == LINES {
                said.pop_front();
            }
            said.push_back(text.chars().take(KEPT).collect());
        }
        line.clear();
    }
}
