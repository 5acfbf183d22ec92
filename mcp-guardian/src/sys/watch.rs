//! One thread that waits for all servers of this process.
//!
//! It is not one of a Tokio runtime: servers are ended and reaped also after the runtime has gone and
//! during a panic. It starts with the first server, and waits in `epoll_wait` without a timeout.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// The result of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Call again when there is more.
    More,
    /// Stop watching.
    Done,
}

type Callback = Box<dyn FnMut() -> Interest + Send>;

struct Source {
    /// Shared, so that it remains open while it is registered.
    fd: Arc<dyn AsFd + Send + Sync>,
    callback: Mutex<Callback>,
    panics: AtomicU32,
}

/// The number of panics after which a callback is given up. Until then it is called again, because
/// its input is still unread.
const PANICS_MAX: u32 = 4;

impl Source {
    /// Handles a panic of foreign code in a callback, which must not end this thread.
    fn has_panicked(&self) -> Interest {
        let panics = self.panics.fetch_add(1, Ordering::Relaxed) + 1;
        crate::logged!(
            error,
            panics,
            "a panic on the watcher of servers; it goes on"
        );
        match panics < PANICS_MAX {
            true => Interest::More,
            false => Interest::Done,
        }
    }
}

struct Watcher {
    epoll: Epoll,
    sources: Mutex<HashMap<u64, Arc<Source>>>,
    /// Never reused, unlike descriptor numbers: a stale event finds no source.
    next_token: AtomicU64,
}

#[derive(Debug)]
pub struct Watched {
    token: u64,
}

/// Starts the thread, if it does not run yet. Called before there is anything to watch.
pub fn start() -> io::Result<()> {
    Watcher::get().map(drop)
}

/// Calls `callback`, which must not block, whenever `fd` is readable, until it is done.
pub fn readable(
    fd: Arc<dyn AsFd + Send + Sync>,
    callback: impl FnMut() -> Interest + Send + 'static,
) -> io::Result<Watched> {
    Watcher::get()?.add(fd, EpollFlags::EPOLLIN, Box::new(callback))
}

/// Does the same when the content of a kernel file has changed since it was last read.
pub fn changed(
    fd: Arc<dyn AsFd + Send + Sync>,
    callback: impl FnMut() -> Interest + Send + 'static,
) -> io::Result<Watched> {
    Watcher::get()?.add(fd, EpollFlags::EPOLLPRI, Box::new(callback))
}

/// Runs `work`, which must not block, once after the callbacks of all ready sources, so that several
/// ends at once share it. Returns `false`, and does nothing, outside of a callback.
pub fn after_callbacks(work: Work) -> bool {
    AFTERWARDS.with_borrow_mut(|afterwards| {
        let Some(works) = afterwards else {
            return false;
        };
        if !works.iter().any(|known| std::ptr::fn_addr_eq(*known, work)) {
            works.push(work);
        }
        true
    })
}

type Work = fn();

thread_local! {
    /// The work that waits for the end of the callbacks; [`None`] while no callbacks run.
    static AFTERWARDS: RefCell<Option<Vec<Work>>> = const { RefCell::new(None) };
}

/// Returns a callback that acts on the first call only.
pub(super) fn once(
    callback: impl FnOnce() + Send + 'static,
) -> impl FnMut() -> Interest + Send + 'static {
    let mut callback = Some(callback);
    move || {
        if let Some(callback) = callback.take() {
            callback();
        }
        Interest::Done
    }
}

impl Watched {
    /// Stops watching. Does not wait for a callback that is running.
    pub fn forget(self) {
        if let Ok(watcher) = Watcher::get() {
            watcher.remove(self.token);
        }
    }
}

impl Watcher {
    /// Returns the watcher of this process, which is shared only once its thread runs.
    fn get() -> io::Result<Arc<Self>> {
        static WATCHER: Mutex<Option<Arc<Watcher>>> = Mutex::new(None);
        let mut known = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watcher) = &*known {
            return Ok(Arc::clone(watcher));
        }
        let watcher = Arc::new(Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            sources: Mutex::default(),
            next_token: AtomicU64::new(0),
        });
        let run = Arc::clone(&watcher);
        thread::Builder::new()
            .name("mcp-lifecycle-watch".to_owned())
            .spawn(move || run.run())?;
        Ok(Arc::clone(known.insert(watcher)))
    }

    fn add(
        &self,
        fd: Arc<dyn AsFd + Send + Sync>,
        what: EpollFlags,
        callback: Callback,
    ) -> io::Result<Watched> {
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        let source = Arc::new(Source {
            fd,
            callback: Mutex::new(callback),
            panics: AtomicU32::new(0),
        });
        let event = EpollEvent::new(what, token);
        self.lock().insert(token, Arc::clone(&source));
        match self.epoll.add(source.fd.as_fd(), event) {
            Ok(()) => Ok(Watched { token }),
            Err(errno) => {
                self.lock().remove(&token);
                Err(errno.into())
            }
        }
    }

    fn remove(&self, token: u64) {
        let source = self.lock().remove(&token);
        if let Some(source) = source {
            let _ = self.epoll.delete(source.fd.as_fd());
        }
    }

    fn run(&self) {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let ready = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(ready) => ready,
                Err(Errno::EINTR) => continue,
                Err(error) => {
                    // Other code in this process has closed a descriptor that it does not own.
                    crate::logged!(error, %error, "the watcher of servers cannot go on");
                    return;
                }
            };
            AFTERWARDS.set(Some(Vec::new()));
            for event in &events[..ready] {
                self.dispatch(event.data());
            }
            for work in AFTERWARDS.take().unwrap_or_default() {
                super::shielded(work);
            }
        }
    }

    fn dispatch(&self, token: u64) {
        let Some(source) = self.lock().get(&token).cloned() else {
            return;
        };
        let called = catch_unwind(AssertUnwindSafe(|| {
            let callback = source.callback.lock();
            callback.unwrap_or_else(PoisonError::into_inner)()
        }));
        let interest = called.unwrap_or_else(|_| source.has_panicked());
        if interest == Interest::Done {
            self.remove(token);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Source>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
