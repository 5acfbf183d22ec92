//! The host's ends of a server's streams.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use mcp_lifecycle_core::launch::{LaunchErrorKind, LaunchedServer, ProcessTerminator};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe;

use crate::command::short_of;
use crate::sys;

#[derive(Debug)]
pub(crate) struct Ours {
    stdin: pipe::Sender,
    stdout: Output,
    stderr: Output,
}

impl Ours {
    pub(crate) fn launched(self, server: Arc<dyn ProcessTerminator>) -> LaunchedServer {
        LaunchedServer::new(self.stdin, self.stdout, Some(Box::new(self.stderr)), server)
    }
}

/// Opens the three streams of a server, and returns the host's ends and the server's. Registered with the current runtime: one that is being shut
/// down, or has no I/O, is an error while there is nothing to undo.
pub(crate) fn open() -> Result<(Ours, [OwnedFd; 3]), LaunchErrorKind> {
    let failed = |error| short_of(error, "the server's streams could not be opened");
    let pair = || io::pipe().map_err(failed);
    let (their_stdin, stdin) = pair()?;
    let (stdout, their_stdout) = pair()?;
    let (stderr, their_stderr) = pair()?;
    let theirs = [their_stdin.into(), their_stdout.into(), their_stderr.into()];
    let adopt = || {
        Ok(Ours {
            stdin: pipe::Sender::from_owned_fd(stdin.into())?,
            stdout: reader(stdout.into())?,
            stderr: reader(stderr.into())?,
        })
    };
    const NOT_TAKEN: &str =
        "the runtime of this launch does not take the server's streams (is it being shut down?)";
    let ours = adopt().map_err(|error: io::Error| short_of(error, NOT_TAKEN))?;
    Ok((ours, theirs))
}

fn reader(fd: OwnedFd) -> io::Result<Output> {
    Ok(Output {
        pipe: pipe::Receiver::from_owned_fd(fd)?,
        size: Size::Usual,
    })
}

/// An output of a server.
///
/// A long message wakes the server once per 64 KiB, which costs more than the copying. So a pipe
/// that was found full is enlarged, once, while the [budget](MAX_LARGE) lasts.
#[derive(Debug)]
pub(crate) struct Output {
    pipe: pipe::Receiver,
    size: Size,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    /// The system's default size.
    Usual,
    /// Enlarged, and counted.
    Large,
    /// It cannot be enlarged.
    Fixed,
}

/// The size that Linux gives a pipe, in bytes (pipe(7)).
const USUAL: usize = 64 * 1024;

/// The size that a pipe may have without privileges, in bytes: `/proc/sys/fs/pipe-max-size`.
const LARGE: usize = 1024 * 1024;

/// The maximum of large pipes of one host: half of the 64 MiB that Linux allows all programs of a
/// user before it makes new pipes tiny (pipe(7), `pipe-user-pages-soft`).
const MAX_LARGE: usize = 32;

static LARGE_PIPES: AtomicUsize = AtomicUsize::new(0);

impl Output {
    fn enlarge(&mut self) {
        let in_budget = LARGE_PIPES.fetch_add(1, Ordering::Relaxed) < MAX_LARGE;
        if in_budget && sys::set_pipe_size(self.pipe.as_fd(), LARGE).is_ok() {
            self.size = Size::Large;
            return;
        }
        LARGE_PIPES.fetch_sub(1, Ordering::Relaxed);
        self.size = Size::Fixed;
    }
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.pipe).poll_read(cx, buf))?;
        if self.size == Size::Usual && buf.filled().len() - before >= USUAL {
            self.enlarge();
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.size == Size::Large {
            LARGE_PIPES.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::Write;
    use tokio::io::AsyncReadExt;

    fn size(fd: impl AsFd) -> usize {
        let size = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_GETPIPE_SZ).unwrap();
        usize::try_from(size).unwrap()
    }

    #[tokio::test]
    async fn a_pipe_that_was_full_is_enlarged_and_no_other() {
        let (ours, theirs) = io::pipe().unwrap();
        let mut theirs = std::fs::File::from(OwnedFd::from(theirs));
        let mut output = reader(ours.into()).unwrap();
        let mut buffer = vec![0; 2 * USUAL];
        theirs.write_all(&vec![1; USUAL - 1]).unwrap();
        assert_eq!(output.read(&mut buffer).await.unwrap(), USUAL - 1);
        assert_eq!(size(&theirs), USUAL);
        theirs.write_all(&vec![1; USUAL]).unwrap();
        assert_eq!(output.read(&mut buffer).await.unwrap(), USUAL);
        assert_eq!(size(&theirs), LARGE);
        // All of it fits, without a reader.
        theirs.write_all(&vec![1; LARGE]).unwrap();
        drop(theirs);
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest.len(), LARGE);
    }
}
