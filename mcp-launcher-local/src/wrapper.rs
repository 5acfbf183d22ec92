//! A process between a host and its server that copies nothing: Windows.
//!
//! This process alone holds the server's job, so the kernel ends the server with it. It waits, and
//! escalates when the input has ended or the host is gone: `docs/containment.md`.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use mcp_lifecycle_core::TerminationPolicy;
use mcp_lifecycle_core::launch::LaunchErrorKind;

use crate::command::{Command, short_of};
use crate::identity;
use crate::job;
use crate::sys::{self, Heard, InputState, Job, Parent, Process};
use mcp_guardian::ladder::{Ladder, Order};
use mcp_tree::resolve::resolve;

/// A server that is to be started with this process's own standard streams.
///
/// [`run`](Self::run) starts it in a job object that this process alone holds, and returns when
/// nothing of it is left.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Wrapper {
    /// The program: a path, or a name that is looked up in `PATH`, with the extensions of
    /// `PATHEXT`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The file that its standard error is appended to; by default this process's own.
    pub log: Option<PathBuf>,
    /// The memory that the server and all its descendants may commit, in bytes: the kernel refuses
    /// more. No limit by default.
    pub memory: Option<u64>,
    /// The time to end by itself after the end of its input, and after CTRL_BREAK. Counted in
    /// milliseconds. 2 s by default. None where this process is killed.
    pub grace: Duration,
}

/// Failure to run a server.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct WrapError {
    kind: LaunchErrorKind,
}

impl WrapError {
    /// The kind of failure.
    pub fn kind(&self) -> &LaunchErrorKind {
        &self.kind
    }
}

impl From<LaunchErrorKind> for WrapError {
    fn from(kind: LaunchErrorKind) -> Self {
        Self { kind }
    }
}

#[derive(Debug)]
enum Event {
    /// The server's process, the host, or the last process of the job has ended.
    Look,
    InputEnded,
    /// The console of this process asks it to end.
    Asked,
}

/// The interval of checks for the end of the input, which has no event.
const INPUT_PERIOD: Duration = Duration::from_millis(50);

impl Wrapper {
    /// Creates a wrapper of a program with its arguments.
    pub fn new(program: impl Into<OsString>, args: impl IntoIterator<Item = OsString>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().collect(),
            log: None,
            memory: None,
            grace: Duration::from_secs(2),
        }
    }

    /// Runs the server, and returns the exit code of its own process once its job is empty.
    ///
    /// To be called once, by a process that has nothing else to do: its standard output is given
    /// up. If this process ends meanwhile, the kernel ends the server.
    ///
    /// # Errors
    ///
    /// No server was started, or the job cannot be queried; it ends with this process.
    pub fn run(&self) -> Result<u32, WrapError> {
        let failed = |what| move |error| short_of(error, what);
        let parent = Parent::hold();
        if matches!(parent, Parent::Gone) {
            let why = "the process that has started this one is gone already";
            return Err(
                LaunchErrorKind::backend(why, io::Error::from(io::ErrorKind::NotFound)).into(),
            );
        }
        let command = self.command()?;
        let log = self.open_log();
        let log = log.map_err(failed("the server's standard error cannot go to its file"))?;
        let job = Job::new(self.memory).map_err(failed("a job object was refused"))?;
        let (tell, told) = mpsc::channel();
        let look = tell.clone();
        let heard = Heard::of(&job, move || drop(look.send(Event::Look)));
        let heard = heard.map_err(failed("the job object could not be watched"))?;
        let host = match &parent {
            Parent::Held(parent) => Some(parent),
            Parent::Gone | Parent::Unknown => None,
        };
        let wait = host.map(|host| host.wait(&heard)).transpose();
        let _host_wait = wait.map_err(failed("the host could not be watched"))?;
        watch_input(tell.clone()).map_err(failed("the standard input could not be watched"))?;
        let _ = sys::when_asked(move || drop(tell.send(Event::Asked)));
        let streams = sys::hand_over().map_err(failed("the standard streams are not there"))?;
        let [input, output, error] = streams;
        let streams = [input, output, log.map_or(error, Into::into)];
        let leader = job::start(&command, streams)?.inside(&job);
        let leader = leader.map_err(|error| command.explain(error))?;
        let wait = leader.wait(&heard);
        let _leader_wait = wait.map_err(failed("the server could not be watched"))?;
        let straggler_grace = TerminationPolicy::default().straggler_grace;
        let life = Life {
            job: &job,
            leader: &leader,
            host,
            told,
            begun: Instant::now(),
            ladder: Ladder::new(nanos(self.grace), nanos(straggler_grace)),
        };
        Ok(life
            .live()
            .map_err(failed("the job object does not answer"))?)
    }

    /// Returns the resolved program, and this process's environment without the marks of a server.
    fn command(&self) -> Result<Command, LaunchErrorKind> {
        let mut env: BTreeMap<_, _> = env::vars_os().collect();
        env.remove(OsStr::new(identity::VARIABLE));
        env.remove(OsStr::new(identity::KEEP));
        let directory = env::current_dir();
        let directory = directory.as_deref().unwrap_or(Path::new("."));
        let program = resolve(&self.program, &env, directory)?;
        Ok(Command {
            program,
            arg0: self.program.clone(),
            args: self.args.clone(),
            env,
            identity: None,
            cwd: None,
        })
    }

    /// Opens the log. Only a file is accepted.
    fn open_log(&self) -> io::Result<Option<File>> {
        let Some(path) = &self.log else {
            return Ok(None);
        };
        let log = OpenOptions::new().append(true).create(true).open(path)?;
        match log.metadata()?.is_file() {
            true => Ok(Some(log)),
            false => Err(io::Error::other("it is not a file")),
        }
    }
}

struct Life<'a> {
    job: &'a Job,
    leader: &'a Process,
    host: Option<&'a Process>,
    told: Receiver<Event>,
    begun: Instant,
    ladder: Ladder,
}

impl Life<'_> {
    fn live(mut self) -> io::Result<u32> {
        let (mut exited, mut is_orphan) = (false, false);
        loop {
            let now = self.now();
            if !exited && self.leader.has_ended() {
                exited = true;
                self.ladder.main_exited(now);
            }
            if exited && self.job.active()? == 0 {
                return self.leader.exit_code();
            }
            if !is_orphan && self.host.is_some_and(Process::has_ended) {
                is_orphan = true;
                let order = self.ladder.host_gone(now);
                self.carry_out(order);
            }
            let order = self.ladder.pass(now);
            self.carry_out(order);
            match self.hear() {
                Some(Event::InputEnded) => self.ladder.told(self.now()),
                Some(Event::Asked) => {
                    let order = self.ladder.terminated(self.now());
                    self.carry_out(order);
                }
                Some(Event::Look) | None => {}
            }
        }
    }

    fn hear(&self) -> Option<Event> {
        match self.ladder.alarm() {
            None => self.told.recv().ok(),
            Some(at) => {
                let left = Duration::from_nanos(at.saturating_sub(self.now()));
                self.told.recv_timeout(left).ok()
            }
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Nothing => {}
            Order::Terminate => {
                // A server without a console cannot be asked, and a console may not answer: then
                // the grace passes.
                let _ = self.leader.interrupt(drop);
                self.ladder.sent();
            }
            Order::Kill => drop(self.job.terminate()),
        }
    }

    fn now(&self) -> u64 {
        nanos(self.begun.elapsed())
    }
}

/// Sends an event when this process's input has ended, if it has one.
fn watch_input(tell: Sender<Event>) -> io::Result<()> {
    let input = sys::input()?;
    let watch = move || {
        loop {
            match input.state() {
                InputState::Open => thread::sleep(INPUT_PERIOD),
                InputState::Ended => return drop(tell.send(Event::InputEnded)),
                InputState::Unknown => return,
            }
        }
    };
    let thread = thread::Builder::new()
        .name("input".to_owned())
        .stack_size(64 * 1024);
    thread.spawn(watch).map(drop)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
