//! The way to the driver: a queue, and the driver itself for a sender that finds it idle.
//!
//! Waking the driver's thread costs more than most commands. So a sender carries out its command
//! itself if the driver is idle: the frame leaves from the sender's thread. The rest is left to the
//! driver: deliveries to processes (the sender may hold their locks) and the timer.
//!
//! ```text
//!  send ──▶ queue ──▶ is the driver at rest? ── yes ──▶ carry out, flush ──▶ all done? ─▶ return
//!                              │ no                                     │ no
//!                              └────────────── wake the driver ◀────────┘
//! ```

use mcp_lifecycle_core::lock::Lock;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::driver::Seat;
use super::process::Command;

/// The sending end. Dropping the last one ends the connection.
#[derive(Clone)]
pub(super) struct Sender(Arc<Shared>);

struct Shared {
    inbox: Arc<Inbox>,
    driver: Arc<Seat>,
}

#[derive(Default)]
pub(super) struct Inbox {
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Command>,
    abandoned: bool,
    closed: bool,
    driver: Option<Waker>,
}

#[derive(Debug)]
pub(super) struct Closed;

pub(super) fn inbox(driver: Arc<Seat>) -> (Sender, Arc<Inbox>) {
    let inbox = Arc::new(Inbox::default());
    let shared = Shared {
        inbox: Arc::clone(&inbox),
        driver,
    };
    (Sender(Arc::new(shared)), inbox)
}

impl Sender {
    /// Queues a command, and carries it out if the driver is idle. Never blocks; works in any
    /// context, even under the locks of a process.
    pub(super) fn send(&self, command: Command) -> Result<(), Closed> {
        let Shared { inbox, driver } = &*self.0;
        let waker = {
            let mut state = inbox.state.lock();
            if state.closed {
                return Err(Closed);
            }
            state.queue.push_back(command);
            state.driver.clone()
        };
        // Without a waker the driver has not started, and will read the queue.
        if let Some(waker) = waker {
            let mut seat = driver.try_lock();
            let driver = seat.as_mut().and_then(|seat| seat.as_mut());
            let is_done = driver.is_some_and(|driver| driver.stand_in(&waker));
            drop(seat);
            if !is_done {
                waker.wake();
            }
        }
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let driver = {
            let mut state = self.inbox.state.lock();
            state.abandoned = true;
            state.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

impl Inbox {
    pub(super) fn register(&self, driver: &Waker) {
        let mut state = self.state.lock();
        if !state.driver.as_ref().is_some_and(|d| d.will_wake(driver)) {
            state.driver = Some(driver.clone());
        }
    }

    pub(super) fn pop(&self) -> Option<Command> {
        self.state.lock().queue.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().queue.is_empty()
    }

    pub(super) fn poll(&self) -> Poll<Option<Command>> {
        let mut state = self.state.lock();
        match state.queue.pop_front() {
            Some(command) => Poll::Ready(Some(command)),
            None if state.abandoned => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let forgotten = std::mem::take(&mut state.queue);
        drop(state);
        drop(forgotten);
    }
}
