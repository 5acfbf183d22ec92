//! The way to the driver: a queue, and the driver itself for whoever finds it
//! at rest.
//!
//! Waking the driver's thread costs more than what it is woken for. So whoever
//! sends a command carries it out, if the driver is not at work: the frame
//! leaves from the sender's thread. What a sender cannot do (deliver to
//! processes, whose locks it may hold, or arm the timer) is left to the driver.
//!
//! ```text
//!  send ──▶ queue ──▶ is the driver at rest? ── yes ──▶ carry out, flush ──▶ all done? ─▶ return
//!                              │ no                                     │ no
//!                              └────────────── wake the driver ◀────────┘
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};

use tokio::sync::oneshot;

use super::driver::Driver;
use super::process::Remote;
use crate::ExecutorError;
use crate::protocol::process::{StartParams, WriteParams};

/// What the rest of the client wants of the driver.
pub(super) enum Command {
    Start(StartParams, Weak<Remote>, Reply),
    Abandon(String),
    Write(WriteParams),
    CloseStdin(String),
    Consumed(String, u64, u64),
    Lag(String, bool),
    Forget(String),
    Call(&'static str, serde_json::Value, Reply),
    /// Nobody follows it.
    StartBlindly(StartParams),
    /// Without an answer: the last resort.
    Terminate(String),
}

pub(super) type Reply = oneshot::Sender<Result<String, ExecutorError>>;

/// For whoever needs the connection. The last one that is dropped ends it.
#[derive(Clone)]
pub(super) struct Commands(Arc<Sender>);

struct Sender {
    inbox: Arc<Inbox>,
    seat: Arc<Seat>,
}

/// Where the driver is while its connection lives.
pub(super) type Seat = Mutex<Option<Driver>>;

/// What waits for the driver.
pub(super) struct Inbox {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Command>,
    /// Nobody sends any more.
    abandoned: bool,
    /// Nobody takes any more.
    closed: bool,
    driver: Option<Waker>,
}

/// The driver has gone.
#[derive(Debug)]
pub(super) struct Closed;

/// A queue, and an empty seat beside it.
pub(super) fn commands() -> (Commands, Arc<Inbox>, Arc<Seat>) {
    let inbox = Arc::new(Inbox {
        state: Mutex::default(),
    });
    let seat = Arc::new(Seat::default());
    let sender = Sender {
        inbox: Arc::clone(&inbox),
        seat: Arc::clone(&seat),
    };
    (Commands(Arc::new(sender)), inbox, seat)
}

impl Commands {
    /// Queues a command, and carries it out if nobody is at it. Never blocks;
    /// in any context, also under the locks of a process.
    pub(super) fn send(&self, command: Command) -> Result<(), Closed> {
        let Sender { inbox, seat } = &*self.0;
        let waker = {
            let mut state = inbox.state();
            if state.closed {
                return Err(Closed);
            }
            state.queue.push_back(command);
            state.driver.clone()
        };
        // Without a waker it has not begun, and will look at the queue.
        let Some(waker) = waker else { return Ok(()) };
        let all_done = match seat.try_lock() {
            Ok(mut seat) => seat.as_mut().is_some_and(|driver| driver.stand_in(&waker)),
            Err(_) => false,
        };
        if !all_done {
            waker.wake();
        }
        Ok(())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let driver = {
            let mut state = self.inbox.state();
            state.abandoned = true;
            state.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

impl Inbox {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the driver is to be woken from now on.
    pub(super) fn register(&self, driver: &Waker) {
        let mut state = self.state();
        if !state.driver.as_ref().is_some_and(|d| d.will_wake(driver)) {
            state.driver = Some(driver.clone());
        }
    }

    pub(super) fn pop(&self) -> Option<Command> {
        self.state().queue.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state().queue.is_empty()
    }

    /// The next command; `None` when nobody will send one.
    pub(super) fn poll(&self) -> Poll<Option<Command>> {
        let mut state = self.state();
        match state.queue.pop_front() {
            Some(command) => Poll::Ready(Some(command)),
            None if state.abandoned => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Refuses what comes from now on, and forgets what came.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let forgotten = std::mem::take(&mut state.queue);
        drop(state);
        drop(forgotten);
    }
}
