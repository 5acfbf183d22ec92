//! One start of a wrapped server, and the exec of its shim.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::iter;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use mcp_lifecycle_core::launch::LaunchErrorKind;

use super::{Require, Server, WrapError, Wrapper};
use crate::cgroup::{self, Leaf};
use crate::command::{Command, limit, short_of};
use crate::guardian::process::protocol::{MESSAGE_MAX, Report, Stage};
use crate::guardian::process::shim::{self, Shim};
use crate::guardian::process::{
    self, GuardianHandle, Received, Record, SpawnGuardianError, SpawnRequest,
};
use crate::guardian::{argv, c_string, env, explain};
use crate::identity::{self, Cookie};
use crate::{orphans, sys};

/// How long a start that failed half-way waits for the end of what it had started.
const UNDO_LIMIT: Duration = Duration::from_secs(5);

/// How long one wait for the guardian's word takes at most; then it is waited for again.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The failure of a start.
enum Failed {
    /// At this step of the guardian or of the server.
    At(Stage, io::Error),
    Otherwise(WrapError),
}

impl<E: Into<WrapError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Otherwise(error.into())
    }
}

/// Starts the server and becomes its shim: with a cgroup if there can be one.
pub(super) fn exec(
    wrapper: &Wrapper,
    server: Server<'_>,
    host: Option<&OwnedFd>,
) -> Result<Infallible, WrapError> {
    let command = server.command;
    let start = |parent| Start {
        wrapper,
        server,
        host,
        parent,
    };
    let insists = wrapper.insists_on_cgroup();
    let limited;
    let parent = match (wrapper.memory, cgroup::parent()) {
        (Some(_), _) => {
            limited = cgroup::parent_with_memory().map_err(no_limit)?;
            Some(limited.as_path())
        }
        (None, Err(error)) if insists => return Err(no_cgroup(error)),
        (None, parent) => parent.ok(),
    };
    match start(parent).exec() {
        Err(Failed::At(Stage::Exec, error)) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            match script(command) {
                // As `execvp` does, and with it whoever starts programs by it.
                Some(by_shell) => {
                    let command = &by_shell;
                    return self::exec(wrapper, Server { command, ..server }, host);
                }
                None => Err(Failed::At(Stage::Exec, error)),
            }
        }
        // Another cgroup than expected, or no right to join it.
        Err(Failed::At(Stage::Cgroup, _)) if !insists => start(None).exec(),
        other => other,
    }
    .map_err(|failed| match failed {
        Failed::Otherwise(error) => error,
        Failed::At(stage, error) => WrapError {
            may_live: false,
            // A sandbox refuses what a guardian needs.
            is_unavailable: is_unavailable(stage) && wrapper.takes_anything(),
            kind: explain(command, stage, error),
        },
    })
}

/// A file that the kernel does not execute and a shell may: one of text. By then it is a shell that is executed, so this is done once.
fn script(command: &Command) -> Option<Command> {
    const SHELL: &str = "/bin/sh";
    let mut start = [0; 128];
    let len = File::open(&command.program).ok()?.read(&mut start).ok()?;
    let line = start.get(..len)?.split(|&byte| byte == b'\n').next()?;
    if line.contains(&0) || line.starts_with(b"\x7fELF") {
        return None;
    }
    let program = command.program.clone().into_os_string();
    Some(Command {
        program: SHELL.into(),
        arg0: SHELL.into(),
        args: iter::once(program)
            .chain(command.args.iter().cloned())
            .collect(),
        env: command.env.clone(),
        identity: command.identity.clone(),
        cwd: None,
    })
}

fn is_unavailable(stage: Stage) -> bool {
    matches!(
        stage,
        Stage::Subreaper | Stage::ChildExits | Stage::DeathSignal
    )
}

fn no_cgroup(error: io::Error) -> WrapError {
    LaunchErrorKind::backend("the server cannot have a cgroup of its own", error).into()
}

fn no_limit(error: io::Error) -> WrapError {
    LaunchErrorKind::backend("the server's memory cannot be limited", error).into()
}

struct Start<'a> {
    wrapper: &'a Wrapper,
    server: Server<'a>,
    host: Option<&'a OwnedFd>,
    /// The cgroup below which the server gets its own.
    parent: Option<&'a Path>,
}

impl Start<'_> {
    fn exec(&self) -> Result<Infallible, Failed> {
        let mut ledger = self.ledger()?;
        let leaf = self.leaf()?;
        if let (None, Some(_), Some(ledger)) = (&leaf, self.parent, &mut ledger) {
            ledger.without_cgroup();
        }
        let doors = leaf.as_ref().map(|(leaf, ..)| leaf.open()).transpose();
        let doors = doors.map_err(no_cgroup)?;
        let program = c_string(self.server.command.program.as_os_str())?;
        let (argv, mut env) = (argv(self.server.command)?, env(self.server.command)?);
        // By which `ps` and `stop` find what is below the guardian.
        let unmarked = self.server.identity.filter(|_| !self.wrapper.mark);
        env.extend(unmarked.map(Cookie::variable));
        let keep = c_string(&self.wrapper.patterns())?;
        let ring = self.ring(ledger.as_ref());
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let guardian = process::spawn(SpawnRequest {
            program: &program,
            argv: &argv,
            env: &env,
            cwd: None,
            stdin: stdin.as_fd(),
            stdout: stdout.as_fd(),
            stderr: self.server.log.map_or(stderr.as_fd(), File::as_fd),
            cgroup_leaf: doors.as_ref().map(|doors| doors.directory.as_fd()),
            cgroup_procs: doors.as_ref().map(|doors| doors.procs.as_fd()),
            cgroup_kill: doors.as_ref().map(|doors| doors.kill.as_fd()),
            grace: self.wrapper.grace,
            record: Record {
                cgroup: leaf
                    .as_ref()
                    .map(|(_, parent, name)| (parent.as_fd(), name.as_c_str())),
                has_memory_limit: self.wrapper.memory.is_some(),
                ledger: ledger.as_ref().map(|ledger| {
                    let (directory, name) = ledger.place();
                    (ledger.file(), directory, name.as_c_str())
                }),
                ring: ring.as_ref().map(File::as_fd),
                companion: self.wrapper.companion_fd(),
                keep: Some(&keep),
            },
            pid_namespace: self.wrapper.require == Require::PidNamespace,
            orphan: false,
            spare: false,
            own_variable: unmarked.is_some(),
        });
        let guardian = match guardian {
            Err(error) if error.may_have_left_one() => {
                leave(ledger, leaf);
                return Err(self.may_live(self.no_guardian(error).kind).into());
            }
            started => started.map_err(|error| self.no_guardian(error))?,
        };
        let pid = match first_word(&guardian) {
            FirstWord::Started(pid) => pid,
            FirstWord::Failed(stage, errno) => {
                guardian.wait_exit(UNDO_LIMIT);
                return Err(Failed::At(stage, io::Error::from_raw_os_error(errno)));
            }
            FirstWord::Gone => return Err(killed("nothing of the server is left").into()),
            FirstWord::Nothing => {
                // What it had started may run. Its cgroup ends it; nothing here proves that.
                let leaf_to_kill = leaf.as_ref().filter(|_| self.wrapper.keep.is_empty());
                let _ = leaf_to_kill.map(|(leaf, ..)| leaf.kill());
                leave(ledger, leaf);
                return Err(self.may_live(killed("it was killed")).into());
            }
        };
        if let Some(ledger) = &mut ledger {
            let seen = sys::see(pid).filter(|seen| seen.parent == guardian.pid());
            ledger.started(pid, seen.map(|seen| seen.start_time));
        }
        let name = self
            .wrapper
            .name
            .as_deref()
            .unwrap_or(OsStr::new(shim::NAMELESS));
        let failed = shim::exec(&Shim {
            name: c_string(name)?,
            guardian: &guardian,
            host: self.host.map(OwnedFd::as_fd),
            // Who stays is told by the guardian alone.
            cgroup_kill: doors
                .as_ref()
                .filter(|_| self.wrapper.keep.is_empty())
                .map(|doors| doors.kill.as_fd()),
            companion: self.wrapper.companion_fd(),
            grace: self.wrapper.grace,
            sigkill_as_code: self.wrapper.sigkill_as_code,
            argv: &argv,
        });
        let error = match failed {
            Ok(never) => match never {},
            Err(error) => error,
        };
        let kind = LaunchErrorKind::backend("its shim could not be executed", error);
        // It has just begun: there is nothing to be saved, and no grace.
        let _ = guardian.kill();
        if guardian.wait_exit(UNDO_LIMIT) && is_gone(&guardian) {
            return Err(kind.into());
        }
        leave(ledger, leaf);
        Err(self.may_live(kind).into())
    }

    /// The error of a start of which something may be left.
    fn may_live(&self, kind: LaunchErrorKind) -> WrapError {
        let mark = self.server.command.identity.as_ref();
        let mark = mark.map_or_else(String::new, |mark| {
            format!(" (it carries {}={mark})", identity::VARIABLE)
        });
        let what = format!(
            "the server was not started as it should be, and something of it may live{mark}; a search for orphans \
             (`mcp-contain reap`) ends what it can identify"
        );
        WrapError {
            kind: LaunchErrorKind::backend(what, kind),
            is_unavailable: false,
            may_live: true,
        }
    }

    /// Written down first. Who cannot be identified, or where no directory takes it, is found by
    /// nobody when shim and guardian are killed together.
    fn ledger(&self) -> Result<Option<orphans::Alone>, WrapError> {
        let Some(identity) = self.server.identity else {
            return Ok(None);
        };
        match orphans::Alone::begin(identity, self.parent) {
            Err(error) if sys::is_shortage(&error) => {
                Err(short_of(error, orphans::UNRECORDED).into())
            }
            ledger => Ok(ledger.ok()),
        }
    }

    /// The ring of what ended, at the record of this server. It is no server's business that there is none.
    fn ring(&self, ledger: Option<&orphans::Alone>) -> Option<File> {
        let (directory, _) = ledger?.place();
        let wrapper = self.wrapper;
        let program = || Path::new(&wrapper.program).file_name();
        let given = wrapper.name.as_ref().or(wrapper.label.as_ref());
        let name = given
            .map(OsString::as_os_str)
            .or_else(program)
            .unwrap_or_default();
        orphans::claim(directory, self.server.identity?.serial(), name).ok()
    }

    /// A fresh cgroup, the directory that it is in, and its name there.
    fn leaf(&self) -> Result<Option<(Leaf, OwnedFd, CString)>, WrapError> {
        let insists = self.wrapper.insists_on_cgroup();
        let (Some(parent), Some(identity)) = (self.parent, self.server.identity) else {
            let nameless = || io::Error::other("this process could not be identified");
            return match insists && self.parent.is_some() {
                true => Err(no_cgroup(nameless())),
                false => Ok(None),
            };
        };
        let name = cgroup::name(identity);
        let made = Leaf::create(parent, &name).and_then(|leaf| {
            let directory = File::open(parent)?;
            Ok((leaf, directory.into(), CString::new(name)?))
        });
        if let (Ok((leaf, ..)), Some(memory)) = (&made, self.wrapper.memory) {
            leaf.limit(memory).map_err(no_limit)?;
        }
        match made {
            Err(error) if insists => Err(no_cgroup(error)),
            made => Ok(made.ok()),
        }
    }

    fn no_guardian(&self, error: SpawnGuardianError) -> WrapError {
        let is_unavailable = !matches!(error, SpawnGuardianError::Failed { .. });
        let kind = match error {
            SpawnGuardianError::Failed { action, source } => {
                limit(source).unwrap_or_else(|source| {
                    LaunchErrorKind::backend(
                        "the server's guardian could not be started",
                        SpawnGuardianError::Failed { action, source },
                    )
                })
            }
            other => LaunchErrorKind::backend("the server cannot have a guardian", other),
        };
        WrapError {
            kind,
            may_live: false,
            is_unavailable: is_unavailable && self.wrapper.takes_anything(),
        }
    }
}

/// The record stays for who searches later: a guardian may live that keeps the lock, which is not to be let go here.
fn leave(ledger: Option<orphans::Alone>, leaf: Option<(Leaf, OwnedFd, CString)>) {
    if let Some(ledger) = ledger {
        ledger.leave();
    }
    if let Some((leaf, ..)) = leaf {
        leaf.abandon();
    }
}

fn killed(how: &'static str) -> LaunchErrorKind {
    LaunchErrorKind::backend(
        "the guardian ended before it said that the server runs",
        how,
    )
}

/// The first message of a guardian.
enum FirstWord {
    /// The program runs, as this process.
    Started(u32),
    /// Nothing was started.
    Failed(Stage, i32),
    /// Nothing is left.
    Gone,
    /// It was killed, or cannot be heard.
    Nothing,
}

fn first_word(guardian: &GuardianHandle) -> FirstWord {
    let mut buffer = [0; MESSAGE_MAX];
    loop {
        match guardian.receive(&mut buffer) {
            Ok(Received::Report(Report::Started { pid })) => return FirstWord::Started(pid),
            Ok(Received::Report(Report::ExecFailed { stage, errno })) => {
                return FirstWord::Failed(stage, errno);
            }
            Ok(Received::Report(Report::Gone { .. })) => return FirstWord::Gone,
            Ok(Received::Report(_)) => {}
            Ok(Received::Nothing) => {
                // Whether it is, or not, it is asked again.
                if sys::ends_within(guardian.control(), PATIENCE).is_err() {
                    return FirstWord::Nothing;
                }
            }
            Ok(Received::Closed) | Err(_) => return FirstWord::Nothing,
        }
    }
}

/// Whether the guardian, which has exited, has said that nothing is left.
fn is_gone(guardian: &GuardianHandle) -> bool {
    let mut buffer = [0; MESSAGE_MAX];
    while let Ok(Received::Report(report)) = guardian.receive(&mut buffer) {
        if let Report::Gone { .. } = report {
            return true;
        }
    }
    false
}
