//! The exits of processes, from one thread that waits in `kevent` (kqueue(2)):
//! macOS and the BSDs. Unmeasured: compiled for macOS and FreeBSD, run on none.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use nix::errno::Errno;
use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};

use super::super::{Pid, shielded};

type OnExit = Box<dyn FnOnce() + Send>;

struct Exits {
    queue: Kqueue,
    waiting: Mutex<HashMap<usize, Vec<OnExit>>>,
}

/// Starts the thread, if it does not run yet.
pub(super) fn start() -> io::Result<()> {
    Exits::get().map(drop)
}

/// Calls `on_exit` on the watcher's thread when the process has ended; at once
/// if there is none.
pub(super) fn watch(pid: Pid, on_exit: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let exits = Exits::get()?;
    let ident = pid.as_u32() as usize;
    exits
        .lock()
        .entry(ident)
        .or_default()
        .push(Box::new(on_exit));
    match exits.register(ident) {
        Ok(()) => Ok(()),
        // Gone, or a zombie already: macOS says so of both.
        Err(Errno::ESRCH) => {
            exits.announce(ident);
            Ok(())
        }
        Err(errno) => {
            exits.lock().remove(&ident);
            Err(errno.into())
        }
    }
}

impl Exits {
    fn get() -> io::Result<&'static Self> {
        static EXITS: OnceLock<Arc<Exits>> = OnceLock::new();
        static STARTING: Mutex<()> = Mutex::new(());
        let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(exits) = EXITS.get() {
            return Ok(exits);
        }
        let exits = Arc::new(Self {
            queue: Kqueue::new()?,
            waiting: Mutex::default(),
        });
        let run = Arc::clone(&exits);
        thread::Builder::new()
            .name("mcp-lifecycle-watch".to_owned())
            .spawn(move || run.run())?;
        // Known to others only once its thread runs.
        Ok(EXITS.get_or_init(|| exits))
    }

    fn register(&self, ident: usize) -> Result<(), Errno> {
        let exit = KEvent::new(
            ident,
            EventFilter::EVFILT_PROC,
            EvFlags::EV_ADD | EvFlags::EV_ONESHOT,
            FilterFlag::NOTE_EXIT,
            0,
            0,
        );
        self.queue.kevent(&[exit], &mut [], None).map(drop)
    }

    fn run(&self) {
        let nothing = KEvent::new(
            0,
            EventFilter::EVFILT_PROC,
            EvFlags::empty(),
            FilterFlag::empty(),
            0,
            0,
        );
        let mut events = [nothing; 64];
        loop {
            match self.queue.kevent(&[], &mut events, None) {
                Ok(count) => {
                    for event in &events[..count] {
                        self.announce(event.ident());
                    }
                }
                Err(Errno::EINTR) => {}
                Err(error) => {
                    super::super::shielded(|| {
                        tracing::error!(%error, "the watcher of servers cannot go on");
                    });
                    return;
                }
            }
        }
    }

    fn announce(&self, ident: usize) {
        let waiting = self.lock().remove(&ident).unwrap_or_default();
        for on_exit in waiting {
            shielded(on_exit);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Vec<OnExit>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
