//! One thread that waits for all servers of this process.
//!
//! Watching from a thread of our own, rather than from a Tokio runtime, is what
//! makes the end of a server independent of one: it is noticed, swept and
//! reaped also after the runtime has gone, and during a panic. The thread
//! starts with the first server, waits in `epoll_wait` without a timeout, and
//! costs nothing while nothing happens.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// What a callback wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// To be called again when there is more.
    More,
    /// Nothing any more.
    Done,
}

type Callback = Box<dyn FnMut() -> Interest + Send>;

struct Source {
    /// Shared, so that it stays open for as long as it is registered.
    fd: Arc<dyn AsFd + Send + Sync>,
    callback: Mutex<Callback>,
}

struct Watcher {
    epoll: Epoll,
    sources: Mutex<HashMap<u64, Arc<Source>>>,
    /// Never reused, unlike descriptor numbers: an event that is stale by the
    /// time it is handled finds nobody.
    next_token: AtomicU64,
}

/// Calls `callback` on the watcher's thread whenever `fd` is readable, until it
/// is done. It must not block and must not panic.
pub(crate) fn readable(
    fd: Arc<dyn AsFd + Send + Sync>,
    callback: impl FnMut() -> Interest + Send + 'static,
) -> io::Result<()> {
    Watcher::get()?.add(fd, EpollFlags::EPOLLIN, Box::new(callback))
}

/// As [`readable`], for a file of the kernel's that is always readable: called
/// when it says something else than when it was last read.
pub(crate) fn changed(
    fd: Arc<dyn AsFd + Send + Sync>,
    callback: impl FnMut() -> Interest + Send + 'static,
) -> io::Result<()> {
    Watcher::get()?.add(fd, EpollFlags::EPOLLPRI, Box::new(callback))
}

impl Watcher {
    fn get() -> io::Result<&'static Self> {
        static WATCHER: OnceLock<Watcher> = OnceLock::new();
        static STARTING: Mutex<()> = Mutex::new(());
        if let Some(watcher) = WATCHER.get() {
            return Ok(watcher);
        }
        let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watcher) = WATCHER.get() {
            return Ok(watcher);
        }
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let watcher = WATCHER.get_or_init(|| Self {
            epoll,
            sources: Mutex::default(),
            next_token: AtomicU64::new(0),
        });
        thread::Builder::new()
            .name("mcp-lifecycle-watch".to_owned())
            .spawn(|| watcher.run())?;
        Ok(watcher)
    }

    fn add(
        &self,
        fd: Arc<dyn AsFd + Send + Sync>,
        what: EpollFlags,
        callback: Callback,
    ) -> io::Result<()> {
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        let source = Arc::new(Source {
            fd,
            callback: Mutex::new(callback),
        });
        let event = EpollEvent::new(what, token);
        self.lock().insert(token, Arc::clone(&source));
        self.epoll.add(source.fd.as_fd(), event).map_err(|errno| {
            self.lock().remove(&token);
            errno.into()
        })
    }

    fn run(&self) {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let ready = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(ready) => ready,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(error) => {
                    // Only a closed descriptor can do this: somebody in this
                    // process closes descriptors that are not theirs.
                    tracing::error!(%error, "the watcher of servers cannot go on");
                    return;
                }
            };
            for event in &events[..ready] {
                self.dispatch(event.data());
            }
        }
    }

    fn dispatch(&self, token: u64) {
        let Some(source) = self.lock().get(&token).cloned() else {
            return;
        };
        let interest = {
            let mut callback = source
                .callback
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            callback()
        };
        if interest == Interest::Done {
            let _ = self.epoll.delete(source.fd.as_fd());
            self.lock().remove(&token);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Source>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
