//! A background thread with a work queue.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::sys;

/// A background thread that takes its whole queue at once.
#[derive(Debug)]
pub struct Worker<T: 'static> {
    name: &'static str,
    serve: fn(Vec<T>),
    runs: Mutex<bool>,
    waiting: Mutex<Vec<T>>,
    filled: Condvar,
}

impl<T: Send> Worker<T> {
    pub const fn new(name: &'static str, serve: fn(Vec<T>)) -> Self {
        Self {
            name,
            serve,
            runs: Mutex::new(false),
            waiting: Mutex::new(Vec::new()),
            filled: Condvar::new(),
        }
    }

    /// Starts the thread, if it does not run yet. Called before there is any work: a proof must not
    /// depend on whether a thread can be started at that moment.
    pub fn start(&'static self) -> io::Result<()> {
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

    pub fn add(&self, one: T) {
        self.lock().push(one);
        self.filled.notify_one();
    }

    fn next(&self) -> Vec<T> {
        let waiting = self.lock();
        let waiting = self.filled.wait_while(waiting, |all| all.is_empty());
        std::mem::take(&mut *waiting.unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
