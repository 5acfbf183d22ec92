//! Starts the guardian of one command: for the launcher's servers and for wrapped ones.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use mcp_lifecycle_core::launch::LaunchErrorKind;

use crate::cgroup::{self, Doors, Leaf};
use crate::command::{Command, limit, short_of, working_directory};
use crate::identity::{self, Cookie};
use crate::program::ending::UNPROVEN;
use crate::program::protocol::{Report, Stage};
use crate::program::{GuardianHandle, Received, Record, SpawnGuardianError, SpawnRequest};

/// The time that a failed launch waits for the end of what it had started.
pub const UNDO_LIMIT: Duration = Duration::from_secs(5);

/// The parts of a request that follow from a command and its cgroup.
#[derive(Debug)]
pub struct Prepared {
    program: CString,
    pub argv: Vec<CString>,
    pub env: Vec<CString>,
    cwd: Option<CString>,
    cgroup: Option<CString>,
    pub doors: Option<Doors>,
}

impl Prepared {
    pub fn new(command: &Command, leaf: Option<&Leaf>) -> Result<Self, LaunchErrorKind> {
        let doors = leaf.map(Leaf::open).transpose();
        let cwd = command.cwd.as_deref().map(|dir| c_string(dir.as_os_str()));
        let argv = std::iter::once(&command.arg0).chain(&command.args);
        Ok(Self {
            program: c_string(command.program.as_os_str())?,
            argv: argv.map(|word| c_string(word)).collect::<Result<_, _>>()?,
            env: env(command)?,
            cwd: cwd.transpose()?,
            cgroup: leaf.map(|leaf| c_string(leaf.name())).transpose()?,
            doors: doors.map_err(|error| short_of(error, "its new cgroup could not be opened"))?,
        })
    }

    /// Returns a request without a grace, with these standard streams.
    pub fn request<'a>(&'a self, streams: [BorrowedFd<'a>; 3]) -> SpawnRequest<'a> {
        let [stdin, stdout, stderr] = streams;
        SpawnRequest {
            program: &self.program,
            argv: &self.argv,
            env: &self.env,
            cwd: self.cwd.as_deref(),
            stdout,
            stderr,
            record: Record {
                cgroup: self.cgroup.as_deref(),
                ..Record::default()
            },
            ..SpawnRequest::nothing(stdin).in_cgroup(self.doors.as_ref())
        }
    }
}

pub fn no_guardian(error: SpawnGuardianError) -> LaunchErrorKind {
    const WHAT: &str = "the server's guardian could not be started";
    let SpawnGuardianError::Failed { action, source } = error else {
        return LaunchErrorKind::backend(WHAT, error);
    };
    limit(source).unwrap_or_else(|source| {
        LaunchErrorKind::backend(WHAT, SpawnGuardianError::Failed { action, source })
    })
}

pub fn new_leaf(parent: &Path, server: Option<&Cookie>) -> io::Result<Leaf> {
    cgroup::new_name(server).and_then(|name| Leaf::create(parent, &name))
}

/// The outcome of a start, by the guardian's reports.
#[derive(Debug)]
pub enum Outcome {
    Started(u32),
    Failed(Stage, i32),
    Gone,
    /// The guardian was killed, its reports cannot be received, or there is none in time.
    Unknown,
}

/// Receives reports up to the next outcome, and waits for it at most for `limit`.
pub fn outcome(guardian: &GuardianHandle, limit: Duration) -> Outcome {
    let outcome = guardian.wait_for(limit, |received| match received {
        Received::Report(Report::Started { pid }) => Some(Outcome::Started(pid)),
        Received::Report(Report::ExecFailed { stage, errno }) => {
            Some(Outcome::Failed(stage, errno))
        }
        Received::Report(Report::Gone { flags, .. }) if flags & UNPROVEN == 0 => {
            Some(Outcome::Gone)
        }
        Received::Report(_) | Received::Nothing => None,
        Received::Closed => Some(Outcome::Unknown),
    });
    outcome.unwrap_or(Outcome::Unknown)
}

/// Returns the environment of a command, its mark last: that is what its guardian
/// [keeps](SpawnRequest::env).
fn env(command: &Command) -> Result<Vec<CString>, LaunchErrorKind> {
    let variable = |(name, value): (&OsString, &OsString)| {
        let mut variable = name.clone();
        variable.push("=");
        variable.push(value);
        CString::new(variable.into_vec()).map_err(nul)
    };
    let is_mark = |(name, _): &(&OsString, &OsString)| **name == *identity::VARIABLE;
    let (marks, others): (Vec<_>, Vec<_>) = command.env.iter().partition(is_mark);
    others.into_iter().chain(marks).map(variable).collect()
}

pub fn explain(command: &Command, stage: Stage, error: io::Error) -> LaunchErrorKind {
    match stage {
        Stage::Chdir => working_directory(command.cwd.as_deref().unwrap_or(".".as_ref()), error),
        Stage::Exec => command.explain(error),
        _ => short_of(error, stage_name(stage)),
    }
}

pub fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Setup => "the guardian could not set itself up",
        Stage::Fork => "the guardian could not create a process for the server",
        Stage::Cgroup => "the server could not join its cgroup",
        Stage::Chdir => "the working directory could not be entered",
        Stage::Exec => "the program could not be executed",
        Stage::Namespace => "the server's PID namespace could not be created",
        Stage::Subreaper => {
            "the guardian could not become a subreaper (prctl PR_SET_CHILD_SUBREAPER; a sandbox may refuse it)"
        }
        Stage::ChildExits => {
            "the guardian could not wait for exits (signalfd; a sandbox may refuse it)"
        }
        Stage::DeathSignal => {
            "the server could not be tied to its guardian (prctl PR_SET_PDEATHSIG; a sandbox may refuse it)"
        }
    }
}

pub fn c_string(text: &OsStr) -> Result<CString, LaunchErrorKind> {
    CString::new(text.as_bytes()).map_err(nul)
}

/// The specification is checked for NUL bytes; nothing else can contain any.
fn nul(error: std::ffi::NulError) -> LaunchErrorKind {
    LaunchErrorKind::backend("a NUL byte cannot be passed on", error)
}

/// Says how a guardian ended, by what `try_reap` returned.
pub fn how_it_ended(reaped: &io::Result<Option<ExitStatus>>) -> String {
    match reaped {
        Ok(Some(status)) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with code {code}"),
            (None, Some(signal)) => format!("was killed (signal {signal})"),
            (None, None) => format!("ended with {status}"),
        },
        Ok(None) => "ended and is held by a tracer".to_owned(),
        Err(error) => format!("ended; its exit status is lost ({error})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_guardian_has_its_code_or_signal() {
        let ended = |status| how_it_ended(&Ok(Some(ExitStatus::from_raw(status))));
        assert_eq!(ended(9), "was killed (signal 9)");
        assert_eq!(ended(0x80 | 6), "was killed (signal 6)");
        assert_eq!(ended(126 << 8), "ended with code 126");
        assert!(how_it_ended(&Ok(None)).contains("tracer"));
        let error = io::Error::from_raw_os_error(libc::ECHILD);
        assert!(how_it_ended(&Err(error)).contains("lost"));
    }
}
