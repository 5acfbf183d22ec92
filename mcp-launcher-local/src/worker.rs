//! A thread that does what others must not wait for.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::sys;

/// A thread of this process, and what it has to do: all of it at once, in turns.
pub(crate) struct Worker<T: 'static> {
    name: &'static str,
    serve: fn(Vec<T>),
    runs: Mutex<bool>,
    waiting: Mutex<Vec<T>>,
    somebody_waits: Condvar,
}

impl<T: Send> Worker<T> {
    pub(crate) const fn new(name: &'static str, serve: fn(Vec<T>)) -> Self {
        Self {
            name,
            serve,
            runs: Mutex::new(false),
            waiting: Mutex::new(Vec::new()),
            somebody_waits: Condvar::new(),
        }
    }

    /// Starts the thread, if it does not run yet.
    ///
    /// Called before there is anything to do: whether an end can be proven must
    /// not depend on whether a thread can be started at that moment.
    pub(crate) fn start(&'static self) -> io::Result<()> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if !*runs {
            let thread = thread::Builder::new().name(self.name.to_owned());
            thread.spawn(|| {
                loop {
                    let all = self.next();
                    sys::shielded(|| (self.serve)(all));
                }
            })?;
            *runs = true;
        }
        Ok(())
    }

    /// Leaves something to it.
    pub(crate) fn add(&self, one: T) {
        self.lock().push(one);
        self.somebody_waits.notify_one();
    }

    fn next(&self) -> Vec<T> {
        let waiting = self.lock();
        let waiting = self
            .somebody_waits
            .wait_while(waiting, |all| all.is_empty());
        std::mem::take(&mut *waiting.unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
