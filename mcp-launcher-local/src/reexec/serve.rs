//! The guardian: a process that is a server's parent, and ends whom it has seen of it when the host has died.

use std::collections::VecDeque;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process;
use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::ExitStatus;

use super::course::{Act, Course, Event, State};
use super::order::{Order, VARIABLE};
use super::program;
use super::protocol::{Asked, Lines, Stage, Told};
use crate::identity;
use crate::sys::{self, NoWard, Start, Ward};

/// Returns at once, unless this process was started as a guardian.
pub(super) fn serve() {
    let Some(value) = env::var_os(VARIABLE) else {
        program::remember();
        return;
    };
    // Whatever is wrong: it must not go on as a second host.
    let served = Order::parse(&value).ok_or(io::ErrorKind::InvalidInput.into());
    match served.and_then(|order| serve_by(&order)) {
        Ok(()) => process::exit(0),
        Err(error) => {
            eprintln!("no guardian by {VARIABLE}: {error}");
            process::exit(2);
        }
    }
}

fn serve_by(order: &Order) -> io::Result<()> {
    let host = sys::inherited_socket(order.descriptor)?;
    host.set_nonblocking(true)?;
    let mut guardian = Guardian {
        host,
        host_is_gone: false,
        lines: Lines::default(),
        course: Course::new(order.grace > 0),
        grace: order.grace(),
        grace_ends: None,
        pause: PAUSE,
        was_woken: true,
        events: VecDeque::new(),
        exit: ExitStatus::Unknown,
        failure: (Stage::Watch, 0),
        ward: None,
    };
    let started = guardian.begin(order);
    // What was said before comes first: then nothing is executed.
    guardian.hear();
    guardian.events.push_back(started);
    while !guardian.act() {
        guardian.wait();
        guardian.hear();
    }
    Ok(())
}

struct Guardian {
    host: UnixStream,
    host_is_gone: bool,
    lines: Lines,
    course: Course,
    grace: Duration,
    grace_ends: Option<Instant>,
    /// To the next look at those who were killed.
    pause: Duration,
    /// Something has happened since the last look that was waited for.
    was_woken: bool,
    events: VecDeque<Event>,
    exit: ExitStatus,
    failure: (Stage, i32),
    ward: Option<Ward>,
}

/// Between the first two looks at those who were killed. Each one after that is twice as long.
const PAUSE: Duration = Duration::from_millis(5);
/// The longest. Also between two looks at those whose end is told to nobody: another user's.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// After a note: the time in which an end that was noted is there to be seen.
const RECHECK: Duration = Duration::from_millis(20);

impl Guardian {
    fn begin(&mut self, order: &Order) -> Event {
        let begun = ward(order, &self.host);
        let begun = begun.map_err(|(stage, error)| (stage, error.raw_os_error().unwrap_or(0)));
        match begun {
            Ok(ward) => {
                self.ward = Some(ward);
                Event::Started
            }
            Err(failure) => {
                self.failure = failure;
                Event::Failed
            }
        }
    }

    /// Does what follows from all that has happened, and returns whether that is the end.
    fn act(&mut self) -> bool {
        while let Some(event) = self.events.pop_front() {
            for act in self.course.step(event) {
                match act {
                    Act::Leave => return true,
                    act => self.perform(act),
                }
            }
        }
        false
    }

    fn perform(&mut self, act: Act) {
        if act == Act::TellFailed {
            let (stage, errno) = self.failure;
            return self.tell(&Told::Failed(stage, errno));
        }
        let Some(ward) = &mut self.ward else { return };
        match act {
            Act::TellStarted => {
                let pid = ward.pid().as_u32();
                self.tell(&Told::Started(pid));
            }
            Act::TellExited => self.tell(&Told::Exited(self.exit)),
            Act::TellGone => {
                let swept = ward.swept();
                self.tell(&Told::Gone(swept));
            }
            Act::Resume => ward.resume(),
            Act::Look => {
                let living = ward.look();
                self.looked(living);
            }
            Act::Ask => drop(ward.ask_to_end()),
            Act::Hunt => {
                let living = ward.hunt();
                self.looked(living);
            }
            Act::BeginGrace => self.grace_ends = Instant::now().checked_add(self.grace),
            Act::Reap => ward.reap(),
            Act::TellFailed | Act::Leave => {}
        }
    }

    /// An end is seen before what it leaves is counted.
    fn looked(&mut self, living: io::Result<usize>) {
        self.see_exit();
        // Where nobody can be listed, somebody may live.
        self.events.push_back(Event::Looked(living.unwrap_or(1)));
    }

    fn see_exit(&mut self) {
        if !self.course.has_exited()
            && let Some(status) = self.ward.as_ref().and_then(Ward::peek)
        {
            self.exit = status;
            self.events.push_back(Event::Exited);
        }
    }

    fn wait(&mut self) {
        let to_grace = self
            .grace_ends
            .map(|end| end.saturating_duration_since(Instant::now()));
        let limit = match self.course.state() {
            State::Hunt => {
                let pause = self.pause;
                self.pause = (pause * 2).min(PAUSE_MAX);
                Some(pause)
            }
            _ if self.course.has_exited() => {
                Some(to_grace.map_or(PAUSE_MAX, |left| left.min(PAUSE_MAX)))
            }
            // Whose exit was noted may be no zombie yet.
            _ if self.was_woken => Some(to_grace.map_or(RECHECK, |left| left.min(RECHECK))),
            _ => to_grace,
        };
        let rechecks =
            self.was_woken && self.course.state() == State::Running && !self.course.has_exited();
        self.was_woken = match self.ward.as_ref().map(|ward| ward.wait(limit)) {
            Some(Ok(was_woken)) => was_woken,
            _ => {
                // Only a closed queue can do this: it goes on by the clock.
                std::thread::sleep(PAUSE);
                true
            }
        };
        self.see_exit();
        if self.was_woken || !rechecks {
            self.events.push_back(Event::Noted);
        }
        if self.grace_ends.is_some_and(|end| Instant::now() >= end) {
            self.grace_ends = None;
            self.events.push_back(Event::GraceOver);
        }
    }

    /// Hears what the host has said.
    fn hear(&mut self) {
        let mut bytes = [0; 512];
        while !self.host_is_gone {
            match self.host.read(&mut bytes) {
                Ok(0) => self.host_is_gone = true,
                Ok(read) => self.lines.add(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.host_is_gone = true,
            }
            while let Some(line) = self.lines.next() {
                self.events
                    .extend(Asked::parse(&line).map(|asked| match asked {
                        Asked::Terminate => Event::Terminate,
                        Asked::Kill => Event::Kill,
                    }));
            }
            self.host_is_gone |= self.lines.is_broken();
            if self.host_is_gone {
                self.events.push_back(Event::HostGone);
            }
        }
    }

    /// Few and short: they fit into the socket also when nobody reads. Nobody may be there any more.
    fn tell(&mut self, told: &Told) {
        let _ = self.host.write_all(told.line().as_bytes());
    }
}

fn ward(order: &Order, host: &UnixStream) -> Result<Ward, (Stage, io::Error)> {
    if let Some(directory) = &order.directory {
        env::set_current_dir(directory).map_err(|error| (Stage::Directory, error))?;
    }
    let arguments: Vec<OsString> = env::args_os().collect();
    let environment: Vec<(OsString, OsString)> = env::vars_os()
        .filter(|(name, _)| name != OsStr::new(VARIABLE))
        .collect();
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let start = Start {
        program: &order.program,
        arguments: arguments.iter().map(OsString::as_os_str).collect(),
        environment: environment
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect(),
        descriptors: &[stdin.as_fd(), stdout.as_fd(), stderr.as_fd()],
        is_suspended: true,
    };
    let identity = environment
        .iter()
        .find(|(name, _)| name == OsStr::new(identity::VARIABLE))
        .and_then(|(_, value)| value.to_str())
        .map(str::to_owned);
    let ward = Ward::begin(&start, identity, host.as_fd()).map_err(|why| match why {
        NoWard::NotExecuted(error) => (Stage::Program, error),
        NoWard::NotWatched(error) => (Stage::Watch, error),
    })?;
    // The server has its own by now, and nobody's mount is kept busy.
    let _ = env::set_current_dir("/");
    Ok(ward)
}
