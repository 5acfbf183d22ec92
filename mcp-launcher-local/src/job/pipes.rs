//! The streams of a server: named pipes, which the host reads without a thread. An output ends when
//! the last process that has the pipe has ended: mio reads `ERROR_BROKEN_PIPE` as the end.

use std::fs::OpenOptions;
use std::io;
use std::os::windows::io::OwnedHandle;

use mcp_lifecycle_core::launch::LaunchErrorKind;
use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};
use tokio::runtime::Handle;

use crate::command::short_of;

#[derive(Debug)]
pub(super) struct Ours {
    pub(super) stdin: NamedPipeServer,
    pub(super) stdout: NamedPipeServer,
    pub(super) stderr: NamedPipeServer,
}

const SIZE: u32 = 64 * 1024;

/// Opens the three streams, registered with the current runtime. Returns the host's ends and the
/// server's: standard input, output, error.
pub(super) fn open() -> Result<(Ours, [OwnedHandle; 3]), LaunchErrorKind> {
    let pair = |is_input| {
        pair(is_input).map_err(|error| short_of(error, "the server's streams could not be opened"))
    };
    let (stdin, their_stdin) = pair(true)?;
    let (stdout, their_stdout) = pair(false)?;
    let (stderr, their_stderr) = pair(false)?;
    let ours = Ours {
        stdin,
        stdout,
        stderr,
    };
    Ok((ours, [their_stdin, their_stdout, their_stderr]))
}

/// Opens a pipe. Returns the host's end and the server's, which is synchronous. If another process
/// opens the random name first, the launch fails.
fn pair(is_input: bool) -> io::Result<(NamedPipeServer, OwnedHandle)> {
    let random = || getrandom::u64().map_err(|_| io::Error::other("there are no random numbers"));
    let name = format!(
        r"\\.\pipe\mcp-lifecycle-{:016x}{:016x}",
        random()?,
        random()?
    );
    let ours = ServerOptions::new()
        .first_pipe_instance(true)
        .max_instances(1)
        .reject_remote_clients(true)
        .access_outbound(is_input)
        .access_inbound(!is_input)
        .in_buffer_size(SIZE)
        .out_buffer_size(SIZE)
        .create(&name)?;
    let theirs = OpenOptions::new()
        .read(is_input)
        .write(!is_input)
        .open(&name)?;
    // It is connected already, so this returns at once.
    Handle::current().block_on(ours.connect())?;
    Ok((ours, theirs.into()))
}
