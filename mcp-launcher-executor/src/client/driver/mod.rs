//! The task that owns the link and carries out the session's effects.

mod effects;

use mcp_lifecycle_core::lock::Lock;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::config::ExecServerConfig;
use super::connect::Connected;
use super::inbox::Inbox;
use super::process::{Command, Remote, Reply};
use super::session::{Purpose, Session, Token};
use crate::link::{HIGH_WATER, Incoming, LinkError};
use crate::protocol::process::ProcessParams;
use crate::protocol::{InitializeResult, method};
use crate::{ExecutorError, Result};

const TURN: usize = 64;

enum Event {
    Connected(Result<Connected>),
    Frame(Incoming),
    LinkLost(Option<LinkError>),
    Parted(String),
    Command(Command),
    Abandoned,
    Tick,
}

type Connecting = Pin<Box<dyn Future<Output = Result<Connected>> + Send>>;

type Parting = Pin<Box<dyn Future<Output = String> + Send>>;

/// When and why the session ended for good; empty until then.
pub(super) type Death = Arc<OnceLock<(Instant, ExecutorError)>>;

pub(super) type Seat = Lock<Option<Driver>>;

pub(super) struct Driver {
    config: ExecServerConfig,
    session: Session,
    commands: Arc<Inbox>,
    link: Option<Connected>,
    connecting: Option<Connecting>,
    parting: Option<Parting>,
    dirty: bool,
    leaving: bool,
    frames: usize,
    replies: HashMap<Token, Reply>,
    next_token: Token,
    processes: HashMap<String, Weak<Remote>>,
    ready: Option<oneshot::Sender<Result<InitializeResult>>>,
    dead: Death,
    timer: Pin<Box<tokio::time::Sleep>>,
}

impl Driver {
    /// Must be called inside the runtime that runs it.
    pub(super) fn new(
        config: ExecServerConfig,
        session: Session,
        commands: Arc<Inbox>,
        ready: oneshot::Sender<Result<InitializeResult>>,
        dead: Death,
    ) -> Self {
        Self {
            config,
            session,
            commands,
            link: None,
            connecting: None,
            parting: None,
            dirty: false,
            leaving: false,
            frames: 0,
            replies: HashMap::new(),
            next_token: 0,
            processes: HashMap::new(),
            ready: Some(ready),
            dead,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
        }
    }

    /// Runs until the connection is unused. Between polls, senders may [stand in](Self::stand_in).
    pub(super) async fn run(self, seat: &Seat) {
        let inbox = Arc::clone(&self.commands);
        let sit = || seat.lock();
        *sit() = Some(self);
        poll_fn(|cx| {
            inbox.register(cx.waker());
            match &mut *sit() {
                Some(driver) => driver.poll(cx),
                None => Poll::Ready(()),
            }
        })
        .await;
        let driver = sit().take();
        if let Some(driver) = driver {
            driver.farewell().await;
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.carry_out();
            let deadline = self.session.next_deadline().into();
            if self.timer.deadline() != deadline {
                self.timer.as_mut().reset(deadline);
            }
            let event = ready!(self.poll_event(cx));
            let now = Instant::now();
            match event {
                Event::Frame(incoming) => self.incoming(now, incoming),
                Event::Command(command) => self.command(now, command),
                Event::Connected(Ok(connected)) => {
                    self.link = Some(connected);
                    self.session.link_up(now);
                }
                Event::Connected(Err(error)) => self.session.link_down(now, error),
                Event::LinkLost(error) => {
                    if error.as_ref().is_some_and(LinkError::is_too_large) {
                        self.session.frame_refused(now);
                    }
                    let reason = match error {
                        Some(error) => mcp_lifecycle_core::launch::ErrorChain(&error).to_string(),
                        None => "the executor closed it".to_owned(),
                    };
                    self.dirty = false;
                    if let Some(link) = self.link.take() {
                        self.parting = Some(Box::pin(link.part(reason)));
                    }
                }
                Event::Parted(why) => self.session.link_down(now, ExecutorError::lost(why)),
                Event::Tick => self.session.tick(now),
                Event::Abandoned => return Poll::Ready(()),
            }
        }
    }

    /// Runs on a sender's thread: takes the commands and sends their frames. Returns `false` if
    /// something is left for the driver's own task, with this waker.
    pub(super) fn stand_in(&mut self, driver: &Waker) -> bool {
        let ready = |c: &Connected| c.link.buffered() <= HIGH_WATER;
        if self.session.has_effects() || !self.link.as_ref().is_some_and(ready) {
            return false;
        }
        let now = Instant::now();
        for _ in 0..TURN {
            match self.commands.pop() {
                Some(command) => self.one_command(now, command),
                None => break,
            }
        }
        let Some(connected) = &mut self.link else {
            return false;
        };
        while let Some(frame) = self.session.next_frame() {
            self.dirty = true;
            // A link that fails here fails in the next poll as well.
            let _ = connected.link.send(frame);
        }
        if self.dirty {
            let mut cx = Context::from_waker(driver);
            match connected.link.poll_flush(&mut cx) {
                Poll::Ready(Ok(())) => self.dirty = false,
                Poll::Ready(Err(_)) => return false,
                Poll::Pending => {}
            }
        }
        let in_time = self.timer.deadline() <= self.session.next_deadline().into();
        in_time && !self.session.has_effects() && self.commands.is_empty()
    }

    /// Returns the next event. Frames come first, so that no deadline expires while its answer has
    /// already arrived; their number is limited, so that a busy peer starves neither commands nor
    /// deadlines.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Some(connecting) = &mut self.connecting
            && let Poll::Ready(outcome) = connecting.as_mut().poll(cx)
        {
            self.connecting = None;
            return Poll::Ready(Event::Connected(outcome));
        }
        if let Some(parting) = &mut self.parting
            && let Poll::Ready(reason) = parting.as_mut().poll(cx)
        {
            self.parting = None;
            return Poll::Ready(Event::Parted(reason));
        }
        let patient = self.frames < TURN;
        if patient && let Poll::Ready(event) = self.poll_recv(cx) {
            self.frames += 1;
            return Poll::Ready(event);
        }
        self.frames = 0;
        let full = self.link.as_ref();
        let full = full.is_some_and(|connected| connected.link.buffered() > HIGH_WATER);
        if !full && !self.leaving {
            match self.commands.poll() {
                Poll::Ready(Some(command)) => return Poll::Ready(Event::Command(command)),
                Poll::Ready(None) => return Poll::Ready(Event::Abandoned),
                Poll::Pending => {}
            }
        }
        // Flushed when idle: one write for many frames.
        if let Some(connected) = &mut self.link
            && self.dirty
        {
            match connected.link.poll_flush(cx) {
                Poll::Ready(Ok(())) => {
                    self.dirty = false;
                    if full {
                        cx.waker().wake_by_ref();
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Event::LinkLost(Some(error))),
                Poll::Pending => {}
            }
        }
        match self.timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Event::Tick),
            Poll::Pending if !patient => self.poll_recv(cx),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let Some(connected) = &mut self.link else {
            return Poll::Pending;
        };
        let before = connected.link.received();
        let event = connected.link.poll_recv(cx).map(|received| match received {
            Some(Ok(incoming)) => Event::Frame(incoming),
            Some(Err(error)) => Event::LinkLost(Some(error)),
            None => Event::LinkLost(None),
        });
        // A frame that arrives slowly is a sign of life throughout.
        if connected.link.received() != before {
            self.session.hears(Instant::now());
        }
        event
    }

    fn incoming(&mut self, now: Instant, incoming: Incoming) {
        match incoming {
            Incoming::Frame(frame) => self.session.frame(now, &frame),
            Incoming::Alive => self.session.alive(now),
            Incoming::TooLarge(size) => {
                self.close_link();
                let reason = format!("a frame of {size} bytes is over the limit");
                self.session.link_down(now, ExecutorError::lost(reason));
            }
        }
    }

    fn command(&mut self, now: Instant, command: Command) {
        self.one_command(now, command);
        for _ in 1..TURN {
            match self.commands.pop() {
                Some(command) => self.one_command(now, command),
                None => break,
            }
        }
    }

    fn one_command(&mut self, now: Instant, command: Command) {
        let session = &mut self.session;
        match command {
            Command::Start(params, remote, reply) => {
                self.processes.insert(params.process_id.clone(), remote);
                self.next_token += 1;
                self.replies.insert(self.next_token, reply);
                session.start(now, &params, self.next_token);
            }
            Command::StartBlindly(params) => {
                session.call(now, method::START, &params, Purpose::Fire);
            }
            Command::Abandon(id) => {
                self.processes.remove(&id);
                session.abandon(now, &id);
            }
            Command::Write(params) => session.write(now, &params),
            Command::CloseStdin(id) => {
                if session.is_extended() {
                    let purpose = Purpose::Close(id.clone());
                    let params = ProcessParams { process_id: id };
                    session.call(now, method::CLOSE_STDIN, &params, purpose);
                }
            }
            Command::Consumed(id, stdout, stderr) => session.consumed(&id, stdout, stderr),
            Command::Lag(id, lagging) => session.lag(now, &id, lagging),
            Command::Forget(id) => {
                self.processes.remove(&id);
                session.forget(&id);
            }
            Command::Call(method, params, reply) => {
                self.next_token += 1;
                self.replies.insert(self.next_token, reply);
                session.call(now, method, &params, Purpose::Answer(self.next_token));
            }
            Command::Terminate(id) => session.terminate(now, id),
        }
    }

    fn close_link(&mut self) {
        self.parting = None;
        if let Some(connected) = self.link.take() {
            tokio::spawn(connected.close());
        }
        self.dirty = false;
    }
}
