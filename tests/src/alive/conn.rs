//! One observed process.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use std::{fmt, io};

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::stream::Stream;
use super::{AliveError, Holder};

/// The observer's end of one process's connection. Clones are the same one.
///
/// Dropping it changes nothing: the [`AliveListener`](super::AliveListener)
/// holds the connection for as long as it exists itself.
#[derive(Clone)]
pub struct AliveConn {
    shared: Arc<Shared>,
}

struct Shared {
    pid_here: Option<u32>,
    state: watch::Sender<State>,
    /// `None` once the end was seen, so that the descriptor is free again.
    stream: Mutex<Option<Arc<Stream>>>,
    /// Weak, because a handle keeps the descriptors of its runtime open.
    observer: Weak<Handle>,
}

/// Messages of the process so far.
#[derive(Debug, Default)]
struct State {
    hello: Option<Holder>,
    barrier: Option<String>,
    pongs: u64,
    events: Vec<String>,
    dead: bool,
}

impl AliveConn {
    pub(super) fn new(stream: Stream, observer: Weak<Handle>) -> Self {
        let shared = Shared {
            pid_here: stream.peer().filter(|pid| *pid > 0),
            state: watch::Sender::default(),
            stream: Mutex::new(Some(Arc::new(stream))),
            observer,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The process that opened this connection.
    pub fn holder(&self) -> Holder {
        let unknown = || Holder {
            role: String::new(),
            pid: 0,
        };
        let state = self.shared.state.borrow();
        state.hello.clone().unwrap_or_else(unknown)
    }

    /// The pid that the process gave, as seen in its own pid namespace.
    pub fn pid(&self) -> u32 {
        self.holder().pid
    }

    /// The pid that it has on this machine, where that can be told.
    pub fn pid_here(&self) -> Option<u32> {
        self.shared.pid_here
    }

    /// Returns whether the end of file was seen.
    pub fn is_dead(&self) -> bool {
        self.shared.state.borrow().dead
    }

    /// Waits for the proof that every holder of this connection is dead.
    ///
    /// # Errors
    ///
    /// [`AliveError::TimedOut`].
    pub async fn wait_dead(&self, limit: Duration) -> Result<(), AliveError> {
        let what = || "the end of file".to_owned();
        self.wait(limit, what, |state| state.dead).await
    }

    /// Proves that the process lives: it answers.
    ///
    /// # Errors
    ///
    /// [`AliveError::Dead`], or [`AliveError::TimedOut`] when it is silent, as
    /// a stopped process is.
    pub async fn ping(&self, limit: Duration) -> Result<(), AliveError> {
        let before = self.shared.state.borrow().pongs;
        self.send(b"ping\n");
        let what = || "an answer to a ping".to_owned();
        self.wait_alive(limit, what, |state| state.pongs > before)
            .await
    }

    /// Releases one step of whatever the process paces by us.
    pub fn step(&self) {
        self.send(b"step\n");
    }

    /// Waits until the process has reported `event`, and returns all of its line.
    ///
    /// `event` is compared with the beginning of the line: `"blocking"` is met
    /// by `blocking 7`.
    ///
    /// # Errors
    ///
    /// [`AliveError::Dead`] or [`AliveError::TimedOut`].
    pub async fn event(&self, event: &str, limit: Duration) -> Result<String, AliveError> {
        let find = |state: &State| {
            let mut events = state.events.iter();
            events.find(|line| line.starts_with(event)).cloned()
        };
        let what = || format!("event {event:?}");
        self.wait_alive(limit, what, |state| find(state).is_some())
            .await?;
        Ok(find(&self.shared.state.borrow()).unwrap_or_default())
    }

    /// Everything that the process has reported so far.
    pub fn events(&self) -> Vec<String> {
        self.shared.state.borrow().events.clone()
    }

    /// The ticket of the observer's own connection; see `AliveListener::barrier`.
    pub(super) fn barrier(&self) -> Option<String> {
        self.shared.state.borrow().barrier.clone()
    }

    /// Ends the connection from this side: nobody watches any more.
    pub(super) fn close(&self) {
        *self.lock_stream() = None;
    }

    /// Takes its end for seen.
    #[cfg(windows)]
    pub(super) fn let_go(&self) {
        self.close();
        self.shared.state.send_modify(|state| state.dead = true);
    }

    /// Reads until the end. Runs on the observer's runtime.
    pub(super) async fn read_to_end(self, changed: impl Fn()) {
        let mut pending = Vec::new();
        let mut buffer = [0; 512];
        let stream = self.lock_stream().clone();
        if let Some(stream) = stream {
            // An error is an end, too: a connection is reset when its last
            // holder dies with something unread.
            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                pending.extend_from_slice(&buffer[..read]);
                while let Some(end) = memchr::memchr(b'\n', &pending) {
                    let line: Vec<u8> = pending.drain(..=end).collect();
                    self.line(String::from_utf8_lossy(&line).trim_end());
                    changed();
                }
            }
        }
        // Closed before the death is announced: who counts descriptors next
        // must not find this one.
        self.close();
        self.shared.state.send_modify(|state| state.dead = true);
        changed();
    }

    fn line(&self, line: &str) {
        self.shared.state.send_modify(|state| {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match (word, rest.split_once(' ')) {
                ("hello", Some((role, pid))) => {
                    state.hello = Some(Holder {
                        role: role.to_owned(),
                        pid: pid.parse().unwrap_or(0),
                    });
                }
                ("barrier", _) => state.barrier = Some(rest.to_owned()),
                ("pong", _) => state.pongs += 1,
                ("event", _) => state.events.push(rest.to_owned()),
                _ => state.events.push(format!("unknown line: {line}")),
            }
        });
    }

    /// A process that is dead, or that does not read, shows in the wait that follows.
    fn send(&self, line: &[u8]) {
        if let Some(stream) = &*self.lock_stream() {
            let _ = stream.try_write(line);
        }
    }

    fn lock_stream(&self) -> std::sync::MutexGuard<'_, Option<Arc<Stream>>> {
        let stream = self.shared.stream.lock();
        stream.unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_alive(
        &self,
        limit: Duration,
        what: impl Fn() -> String,
        met: impl Fn(&State) -> bool,
    ) -> Result<(), AliveError> {
        self.wait(limit, &what, |state| met(state) || state.dead)
            .await?;
        if met(&self.shared.state.borrow()) {
            return Ok(());
        }
        Err(AliveError::Dead {
            holder: self.holder(),
            what: what(),
        })
    }

    async fn wait(
        &self,
        limit: Duration,
        what: impl Fn() -> String,
        met: impl Fn(&State) -> bool,
    ) -> Result<(), AliveError> {
        let mut state = self.shared.state.subscribe();
        let waiting = {
            let Some(observer) = self.shared.observer.upgrade() else {
                return Err(io::Error::other("its listener was dropped").into());
            };
            // The observer's clock: the caller may have no runtime of its own.
            let _observer = observer.enter();
            tokio::time::timeout(limit, state.wait_for(|state| met(state)))
        };
        match waiting.await {
            Ok(_) => Ok(()),
            Err(_elapsed) => Err(AliveError::TimedOut {
                what: format!("{} of {}", what(), self.holder()),
                limit,
                connected: Vec::new(),
            }),
        }
    }
}

impl fmt::Debug for AliveConn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.borrow();
        f.debug_tuple("AliveConn").field(&*state).finish()
    }
}
