//! The job object of a server, which this process alone holds: the kernel ends the server with it.

use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use std::{io, thread};

use mcp_guardian::exit::ExitStatus;
use mcp_guardian::sys::{self, Heard, InputState, Job, Parent, Process, Wait};
use mcp_lifecycle_core::launch::LaunchErrorKind;

use super::super::{Require, WrapError, Wrapper, no_log};
use super::{Event, unsupported};
use crate::command::short_of;
use crate::command_line;

/// None: the job reports its end.
pub(super) const LOOK: Option<Duration> = None;

/// The interval of checks for the end of the input, which has no event.
const INPUT_PERIOD: Duration = Duration::from_millis(50);

pub(super) struct Held {
    job: Job,
    leader: Process,
    /// `None` once it is gone, too.
    host: Option<Process>,
    /// `None` where a process, or the last of the job, has ended.
    events: Receiver<Option<Event>>,
    _waits: [Option<Wait>; 2],
    _heard: Heard,
}

impl Held {
    pub(super) fn start(wrapper: &Wrapper) -> Result<Self, WrapError> {
        let has_more =
            wrapper.is_restricted() || wrapper.report.is_some() || !wrapper.keep.is_empty();
        if has_more || wrapper.require == Require::PidNamespace {
            return Err(unsupported());
        }
        let failed = |what| move |error| short_of(error, what);
        let host = match Parent::hold() {
            Parent::Held(parent) => Some(parent),
            Parent::Unknown => None,
            Parent::Gone => {
                let why = "the process that has started this one is gone already";
                let gone = io::Error::from(io::ErrorKind::NotFound);
                return Err(LaunchErrorKind::backend(why, gone).into());
            }
        };
        let command = wrapper.command(None)?;
        let log = wrapper.open_log().map_err(no_log)?;
        let job = Job::new(wrapper.limits.memory).map_err(failed("a job object was refused"))?;
        let (tell, events) = mpsc::channel();
        let look = tell.clone();
        let heard = Heard::of(&job, move || drop(look.send(None)));
        let heard = heard.map_err(failed("the job object could not be watched"))?;
        let wait = host.as_ref().map(|host| host.wait(&heard)).transpose();
        let host_wait = wait.map_err(failed("the host could not be watched"))?;
        watch_input(tell.clone()).map_err(failed("the standard input could not be watched"))?;
        let _ = sys::when_asked(move || drop(tell.send(Some(Event::Asked))));
        let streams = sys::hand_over().map_err(failed("the standard streams are not there"))?;
        let [input, output, error] = streams;
        let streams = [input, output, log.map_or(error, Into::into)];
        let leader = command_line::start(&command, streams)?.inside(&job);
        let leader = leader.map_err(|error| command.explain(error))?;
        let wait = leader.wait(&heard);
        let wait = wait.map_err(failed("the server could not be watched"))?;
        Ok(Self {
            job,
            leader,
            host,
            events,
            _waits: [host_wait, Some(wait)],
            _heard: heard,
        })
    }

    pub(super) fn exited(&self) -> io::Result<Option<ExitStatus>> {
        match self.leader.has_ended() {
            true => Ok(Some(ExitStatus::Code(
                self.leader.exit_code()?.cast_signed(),
            ))),
            false => Ok(None),
        }
    }

    pub(super) fn is_empty(&self) -> io::Result<bool> {
        Ok(self.job.active()? == 0)
    }

    /// Asks by the console. A server without one cannot be asked, and a console may not answer:
    /// then the grace passes.
    pub(super) fn terminate(&self) {
        let _ = self.leader.interrupt(drop);
    }

    pub(super) fn kill(&self) {
        let _ = self.job.terminate();
    }

    pub(super) fn wait(&mut self, limit: Option<Duration>) -> io::Result<Option<Event>> {
        if self.host.take_if(|host| host.has_ended()).is_some() {
            return Ok(Some(Event::HostGone));
        }
        let event = match limit {
            None => self.events.recv().ok(),
            Some(limit) => self.events.recv_timeout(limit).ok(),
        };
        Ok(event.flatten())
    }
}

/// Sends an event when this process's input has ended, if it has one.
fn watch_input(tell: Sender<Option<Event>>) -> io::Result<()> {
    let input = sys::input()?;
    let watch = move || {
        loop {
            match input.state() {
                InputState::Open => thread::sleep(INPUT_PERIOD),
                InputState::Ended => return drop(tell.send(Some(Event::Told))),
                InputState::Unknown => return,
            }
        }
    };
    let thread = thread::Builder::new()
        .name("input".to_owned())
        .stack_size(64 * 1024);
    thread.spawn(watch).map(drop)
}
