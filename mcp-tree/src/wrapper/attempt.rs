//! One start of a wrapped server under a guardian, and the exec of its shim.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;
use std::{env, io};

use mcp_lifecycle_core::TerminationPolicy;
use mcp_lifecycle_core::launch::LaunchErrorKind;
use nix::sys::signal::SigSet;
use nix::unistd::getppid;

use super::{Require, WrapError, Wrapper, no_log, staying};
use crate::cgroup::{self, Leaf};
use crate::command::{Command, new_identity};
use crate::identity::{self, Cookie};
use crate::program::protocol::{self, Stage};
use crate::program::shim::{self, Shim};
use crate::program::{self, Outcome, Record, SpawnGuardianError, SpawnRequest, how_it_ended};
use crate::tree::start::{Prepared, UNDO_LIMIT, c_string, explain, no_guardian, not_restricted};
use crate::{hardened, orphans, sys};

#[derive(Clone, Copy)]
struct Server<'a> {
    command: &'a Command,
    identity: Option<&'a Cookie>,
    log: Option<&'a File>,
}

impl Wrapper {
    /// The guardian's message to the companion: nothing is left of the server.
    pub const SERVER_GONE: u8 = protocol::SERVER_GONE;
    /// The companion's answer: nothing is left of what it looks after.
    pub const COMPANION_DONE: u8 = protocol::COMPANION_DONE;

    fn insists_on_cgroup(&self) -> bool {
        self.require == Require::Cgroup || !self.limits.is_none()
    }

    fn companion_fd(&self) -> Option<BorrowedFd<'_>> {
        self.companion.as_ref().map(|socket| socket.as_fd())
    }

    /// Makes [`exec`](Self::exec) wait, at most for `limit`, until nothing is left of an earlier
    /// server with this name, program, arguments and working directory that is dying: its shim or
    /// the program that used it has ended. Then no server is started, if something may be left. An
    /// earlier one that is in use is neither waited for nor touched, nor one that was not started in
    /// this way. To be called before [`start_directly`](Self::start_directly).
    pub fn wait_for_predecessor(&mut self, limit: Duration) {
        let mut key = DefaultHasher::new();
        (
            &self.name,
            &self.program,
            &self.args,
            env::current_dir().ok(),
        )
            .hash(&mut key);
        self.exclusive = Some((key.finish() as u32, limit));
    }

    /// Starts the server and becomes its shim. Returns only if that fails.
    ///
    /// To be called by a process with one thread and no children: as with any exec, no destructor
    /// is run. Descriptors other than the standard streams are closed. Blocks until the server's
    /// program runs.
    pub fn exec(&self) -> WrapError {
        if let Some((key, limit)) = self.exclusive {
            let user = getppid();
            if let Err(error) = orphans::await_predecessors(key, limit) {
                const WHAT: &str =
                    "an earlier server with the same command may live (`mcp-contain ps`)";
                return LaunchErrorKind::backend(WHAT, error).into();
            }
            if getppid() != user {
                let why = "it ended while an earlier server was waited for";
                return LaunchErrorKind::backend("the server has no user", why).into();
            }
        }
        // Neither server nor shim may get descriptors that the host has leaked.
        sys::close_on_exec_from(3);
        let mask = SigSet::thread_get_mask();
        // Blocks all signals, so that none is lost before the shim runs.
        let _ = SigSet::all().thread_block();
        let failed = match self.try_exec() {
            Ok(never) => match never {},
            Err(failed) => failed,
        };
        let _ = mask.and_then(|mask| mask.thread_set_mask());
        failed
    }

    fn try_exec(&self) -> Result<Infallible, WrapError> {
        staying::check(self)?;
        let host = sys::hold_parent();
        let identity = new_identity()?;
        let mut command = self.command(identity.as_ref())?;
        if self.mark && !self.keep.is_empty() {
            command.env.insert(identity::KEEP.into(), self.patterns());
        }
        let log = self.open_log().map_err(no_log)?;
        let server = Server {
            command: &command,
            identity: identity.as_ref(),
            log: log.as_ref(),
        };
        self::exec(self, server, host.as_ref())
    }
}

enum Failed {
    At(Stage, io::Error),
    Otherwise(WrapError),
}

impl<E: Into<WrapError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Otherwise(error.into())
    }
}

/// Starts the server and becomes its shim: with a cgroup if there can be one.
fn exec(
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
    let parent = match (wrapper.limits.is_none(), cgroup::parent()) {
        (false, _) => {
            limited = cgroup::parent_with(&wrapper.limits).map_err(no_limit)?;
            Ok(limited.as_path())
        }
        (true, Err(error)) if insists => return Err(no_cgroup(error)),
        (true, parent) => parent.map_err(|error| error.to_string()),
    };
    match start(parent).exec() {
        Err(Failed::At(Stage::Exec, error)) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            match command.by_shell() {
                // A shell runs it, as `execvp` does, and every program that uses it.
                Some(by_shell) => {
                    let command = &by_shell;
                    return self::exec(wrapper, Server { command, ..server }, host);
                }
                None => Err(Failed::At(Stage::Exec, error)),
            }
        }
        // Another cgroup than expected, or no right to join it.
        Err(Failed::At(Stage::Cgroup, error)) if !insists => start(Err(error.to_string())).exec(),
        other => other,
    }
    .map_err(|failed| match failed {
        Failed::Otherwise(error) => error,
        Failed::At(stage, error) => WrapError {
            is_unavailable: is_unavailable(stage),
            kind: explain(command, stage, error),
        },
    })
    .map_err(|error| WrapError {
        is_unavailable: error.is_unavailable
            && wrapper.require <= Require::Group
            && wrapper.limits.is_none()
            && !wrapper.is_restricted()
            && !wrapper.in_foreground
            && wrapper.report.is_none(),
        ..error
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
    LaunchErrorKind::backend("the server cannot be limited", error).into()
}

struct Start<'a> {
    wrapper: &'a Wrapper,
    server: Server<'a>,
    host: Option<&'a OwnedFd>,
    /// The cgroup that its own is made in, or why there is none.
    parent: Result<&'a Path, String>,
}

impl Start<'_> {
    fn exec(&self) -> Result<Infallible, Failed> {
        let parent = self.parent.as_ref().ok().copied();
        let identity = self.server.identity;
        let mut ledger = self.wrapper.ledger(identity, parent)?;
        let leaf = self.leaf()?;
        if let (Err(_), Ok(_), Some(ledger)) = (&leaf, &self.parent, &mut ledger) {
            ledger.without_cgroup();
        }
        let report = self.wrapper.report.as_ref();
        let no_cgroup = leaf.as_ref().err();
        let report = report.map(|report| (report, self.wrapper.beginning(identity, no_cgroup)));
        let leaf = leaf.ok();
        // `ps` and `stop` find the processes below the guardian by it.
        let unmarked = self.server.identity.filter(|_| !self.wrapper.mark);
        let keep = c_string(&self.wrapper.patterns())?;
        let ring = self.wrapper.ring(identity, ledger.as_ref());
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let stderr = self.server.log.map_or(stderr.as_fd(), File::as_fd);
        // Before Linux 5.14 a cgroup can be made and cannot be killed.
        let doors = leaf.as_ref().map(Leaf::open).transpose();
        let doors = doors.map_err(|error| Failed::At(Stage::Cgroup, error))?;
        let mut prepared = Prepared::new(self.server.command, leaf.as_ref().zip(doors))?;
        prepared.env.extend(unmarked.map(Cookie::variable));
        let request = prepared.request([stdin.as_fd(), stdout.as_fd(), stderr]);
        let mut writable = self.wrapper.writable.clone();
        let log = &self.wrapper.log;
        // Scripts open `/dev/stderr`.
        writable.iter_mut().for_each(|it| it.extend(log.clone()));
        let rules = hardened::rules(self.wrapper.hardened, writable.as_deref());
        let rules = rules.map_err(not_restricted)?;
        let guardian = program::spawn(SpawnRequest {
            grace: self.wrapper.grace,
            record: Record {
                is_alone: true,
                has_memory_limit: self.wrapper.limits.memory.is_some(),
                ledger: ledger.as_ref().map(|ledger| {
                    let (directory, name) = ledger.place();
                    (ledger.file(), directory, name.as_c_str())
                }),
                ring: ring.as_ref().map(File::as_fd),
                companion: self.wrapper.companion_fd(),
                report: report
                    .as_ref()
                    .map(|(file, beginning)| (file.as_fd(), beginning.as_c_str())),
                keep: Some(&keep),
                ..request.record
            },
            pid_namespace: self.wrapper.require == Require::PidNamespace,
            rules: rules.as_ref().map(AsFd::as_fd),
            own_variable: unmarked.is_some(),
            in_foreground: self.wrapper.in_foreground,
            ..request
        });
        let guardian = match guardian {
            Ok(guardian) => guardian,
            Err(error) if error.may_have_left_one() => {
                leave(ledger, leaf);
                return Err(self.may_live(no_guardian(error)).into());
            }
            Err(error) => {
                return Err(Failed::Otherwise(WrapError {
                    is_unavailable: !matches!(error, SpawnGuardianError::Failed { .. }),
                    kind: no_guardian(error),
                }));
            }
        };
        let pid = match guardian.outcome(Duration::MAX) {
            Outcome::Started(pid) => pid,
            Outcome::Failed(stage, errno) => {
                guardian.wait_exit(UNDO_LIMIT);
                return Err(Failed::At(stage, io::Error::from_raw_os_error(errno)));
            }
            Outcome::Gone => {
                let why = "nothing of the server is left".to_owned();
                return Err(ended_early(why).into());
            }
            Outcome::Unknown => {
                // The cgroup ends what it had started; nothing here proves that.
                let leaf_to_kill = leaf.as_ref().filter(|_| self.wrapper.keep.is_empty());
                let _ = leaf_to_kill.map(Leaf::kill);
                let how = match guardian.wait_exit(UNDO_LIMIT) {
                    true => format!("it {}", how_it_ended(&guardian.try_reap())),
                    false => "its reports could not be received".to_owned(),
                };
                leave(ledger, leaf);
                return Err(self.may_live(ended_early(how)).into());
            }
        };
        if let Some(ledger) = &mut ledger {
            let seen = sys::see(pid).filter(|seen| seen.parent == guardian.pid());
            ledger.started(pid, seen.map(|seen| seen.start_time), false);
        }
        let name = self
            .wrapper
            .name
            .as_deref()
            .unwrap_or(OsStr::new(shim::NAMELESS));
        let log = self.wrapper.log.as_deref().map(std::path::absolute);
        let log = log.and_then(|log| c_string(log.ok()?.as_os_str()).ok());
        let failed = shim::exec(&Shim {
            name: c_string(name)?,
            guardian: &guardian,
            host: self.host.map(OwnedFd::as_fd),
            // The guardian alone decides which processes to keep.
            cgroup_kill: prepared
                .doors
                .as_ref()
                .filter(|_| self.wrapper.keep.is_empty())
                .map(|doors| doors.kill.as_fd()),
            companion: self.wrapper.companion_fd(),
            grace: self.wrapper.grace,
            straggler_grace: TerminationPolicy::default().straggler_grace,
            sigkill_as_code: self.wrapper.sigkill_as_code,
            log,
            in_foreground: self.wrapper.in_foreground,
            argv: &prepared.argv,
        });
        let error = match failed {
            Ok(never) => match never {},
            Err(error) => error,
        };
        let kind = LaunchErrorKind::backend("its shim could not be executed", error);
        // There is no grace: the server has nothing to save yet.
        let _ = guardian.kill();
        if guardian.wait_exit(UNDO_LIMIT)
            && matches!(guardian.outcome(Duration::ZERO), Outcome::Gone)
        {
            return Err(kind.into());
        }
        leave(ledger, leaf);
        Err(self.may_live(kind).into())
    }

    fn may_live(&self, kind: LaunchErrorKind) -> LaunchErrorKind {
        let mark = self.server.command.identity.as_ref();
        let mark = mark.map_or_else(String::new, |mark| {
            format!(" (it carries {}={mark})", identity::VARIABLE)
        });
        let what = format!(
            "the server was not started as it should be, and something of it may live{mark}; a search for orphans \
             (`mcp-contain reap`) ends what it can identify"
        );
        LaunchErrorKind::backend(what, kind)
    }

    /// Makes the server's cgroup, or returns why it has none.
    fn leaf(&self) -> Result<Result<Leaf, String>, WrapError> {
        let insists = self.wrapper.insists_on_cgroup();
        let parent = match &self.parent {
            Ok(parent) => parent,
            Err(why) => return Ok(Err(why.clone())),
        };
        let made = Leaf::create(parent, self.server.identity);
        if let Ok(leaf) = &made {
            leaf.limit(&self.wrapper.limits).map_err(no_limit)?;
        }
        match made {
            Err(error) if insists => Err(no_cgroup(error)),
            made => Ok(made.map_err(|error| error.to_string())),
        }
    }
}

/// Leaves the record to a later search: a guardian that may live holds the lock.
fn leave(ledger: Option<orphans::WrapperLedger>, leaf: Option<Leaf>) {
    if let Some(ledger) = ledger {
        ledger.leave();
    }
    if let Some(leaf) = leaf {
        leaf.abandon();
    }
}

fn ended_early(how: String) -> LaunchErrorKind {
    LaunchErrorKind::backend(
        "the guardian ended before it said that the server runs",
        how,
    )
}
