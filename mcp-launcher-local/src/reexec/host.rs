//! How a host starts a guardian, and its server by that.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::{Containment, LaunchErrorKind, LaunchedServer, Reach};

use super::order::{Order, VARIABLE};
use super::program;
use super::protocol::{Asked, Lines, Stage, Told};
use super::server::Guarded;
use crate::command::{Command, short_of, working_directory};
use crate::sys::{self, Pid, Start};
use crate::{orphans, pipes};

/// The containment that a guardian gives here. It sees further than the group; nobody has measured how far, so nothing
/// more is promised.
pub(crate) fn containment() -> Containment {
    Containment::new("guardian, process group and lineage", Reach::Group)
        .with_host_death(Reach::Group)
}

/// Returns why there can be no guardian, if there can be none.
pub(crate) fn ready() -> Result<(), &'static str> {
    program::again().map(drop)
}

/// The number that the guardian's end of the socket has there.
const CONTROL: i32 = 3;

/// The time that a guardian has to start the server: it is a program that starts, and executes another one.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The time that a guardian has to end by itself when it has no host any more.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Starts `command` by a guardian. Blocks until the server is there.
///
/// Whatever can fail without a server does so before there is one.
pub(crate) fn spawn(
    command: &Command,
    grace: Duration,
    containment: Containment,
) -> Result<LaunchedServer, LaunchErrorKind> {
    const UNSTARTED: &str = "the server's guardian could not be started";
    let failed = |error| short_of(error, UNSTARTED);
    sys::can_lead().map_err(failed)?;
    let guardian = program::again().map_err(|why| failed(io::Error::other(why)))?;
    let (ours, theirs) = pipes::open()?;
    let (control, their_control) = UnixStream::pair().map_err(failed)?;
    sys::without_sigpipe(&control).map_err(failed)?;
    let limit = Some(START_LIMIT);
    control.set_read_timeout(limit).map_err(failed)?;
    let (hand_over, taken) = mpsc::channel::<(Arc<Guarded>, Lines)>();
    thread::Builder::new()
        .name("mcp-lifecycle-guardian".to_owned())
        .spawn(move || {
            if let Ok((server, lines)) = taken.recv() {
                server.hear(lines);
            }
        })
        .map_err(failed)?;
    if let Some(server) = &command.identity {
        orphans::register_uncontained(server)
            .map_err(|error| short_of(error, orphans::UNRECORDED))?;
    }
    let order = Order {
        descriptor: CONTROL,
        grace: u32::try_from(grace.as_millis()).unwrap_or(u32::MAX),
        directory: command.cwd.clone(),
        program: command.program.clone(),
    };
    let order = order.value();
    let variables = command.env.iter();
    let variables = variables.filter(|(name, _)| *name != OsStr::new(VARIABLE));
    let variables = variables.map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let arguments = command.args.iter().map(OsString::as_os_str);
    let guardian = sys::start(&Start {
        program: guardian,
        arguments: [command.arg0.as_os_str()]
            .into_iter()
            .chain(arguments)
            .collect(),
        environment: variables
            .chain([(OsStr::new(VARIABLE), order.as_os_str())])
            .collect(),
        descriptors: &[
            theirs.stdin.as_fd(),
            theirs.stdout.as_fd(),
            theirs.stderr.as_fd(),
            their_control.as_fd(),
        ],
        is_suspended: false,
    })
    .map_err(failed)?;
    // The host's copies of its ends.
    drop((theirs, their_control));
    let mut started = Started {
        guardian,
        control: Some(control),
    };
    let mut lines = Lines::default();
    let pid = match started.first(&mut lines) {
        Ok(Told::Started(pid)) => Pid::new(pid.into()),
        Ok(Told::Failed(stage, errno)) => {
            return Err(explain(command, stage, io::Error::from_raw_os_error(errno)));
        }
        Ok(_) => None,
        Err(error) => return Err(failed(error)),
    };
    let pid = pid.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
    let Some(control) = started.control.take() else {
        unreachable!("it was not taken yet")
    };
    let server = Guarded::new(
        pid,
        guardian,
        control,
        command.identity.as_ref(),
        containment,
    );
    let server = Arc::new(server);
    // Received, or the thread has gone with its panic, which it has not begun.
    let _ = hand_over.send((Arc::clone(&server), lines));
    Ok(LaunchedServer::new(
        ours.stdin,
        ours.stdout,
        Some(Box::new(ours.stderr)),
        server,
    ))
}

fn explain(command: &Command, stage: Stage, error: io::Error) -> LaunchErrorKind {
    match (stage, &command.cwd) {
        (Stage::Directory, Some(directory)) => working_directory(directory, error),
        (Stage::Program, _) => command.explain(error),
        _ => short_of(error, "the server's guardian could not watch it"),
    }
}

/// A guardian whose server nobody owns yet.
///
/// # Drop
///
/// It has no host, so it ends its server and then itself, and is killed if it does not.
struct Started {
    guardian: Pid,
    control: Option<UnixStream>,
}

impl Started {
    /// The first thing that it tells.
    fn first(&mut self, lines: &mut Lines) -> io::Result<Told> {
        let Some(control) = &mut self.control else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let end = Instant::now() + START_LIMIT;
        let mut bytes = [0; 512];
        loop {
            if let Some(line) = lines.next() {
                control.set_read_timeout(None)?;
                return Told::parse(&line).ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
            if lines.is_broken() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if Instant::now() >= end {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match control.read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => lines.add(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(control) = self.control.take() {
            // A grace is for a host that has died.
            let _ = (&control).write_all(Asked::Kill.line().as_bytes());
            drop(control);
            sys::reap_within(self.guardian, END_LIMIT);
        }
    }
}
