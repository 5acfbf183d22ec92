//! Reads that another process can block: of its environment, its command line, its memory's size.
//!
//! They wait for its memory lock, which it holds for instance while it loads from a hanging file
//! system or serves its own page faults; only the end of one of the two ends the wait. So the read
//! runs on a thread of its own, which is left behind if no answer comes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::sys;

/// How long a process may take to answer. Microseconds are usual.
const LIMIT: Duration = Duration::from_secs(1);

/// The limit while another process has not answered.
const SHORT: Duration = Duration::from_millis(100);

/// The slices of a wait. While this process is stopped, only one of them passes.
const SLICES: u32 = 10;

/// The maximum of further slices while the asking thread waits for a processor.
const BUSY_SLICES: u32 = 10 * SLICES;

/// The maximum of threads left behind; then no process is asked.
const LEFT_MAX: usize = 16;

/// The reason given for a process that does not answer.
pub const NO_ANSWER: &str = "reading its memory blocks";

static SILENT: Mutex<Vec<Silent>> = Mutex::new(Vec::new());

struct Silent {
    pid: u32,
    start_time: Option<u64>,
    has_answered: Arc<AtomicBool>,
}

/// Asks a process; `None` if it does not answer. Blocks for at most a second, or eleven on a busy
/// machine.
pub fn one<T: Send + 'static>(
    pid: u32,
    question: impl Fn(u32) -> T + Copy + Send + 'static,
) -> Option<T> {
    each(&[pid], question).pop().flatten()
}

/// Asks each of these processes in turn; `None` for one that does not answer. All of those cost at
/// most three seconds together, on a machine that is not busy.
pub fn each<T: Send + 'static>(
    pids: &[u32],
    question: impl Fn(u32) -> T + Copy + Send + 'static,
) -> Vec<Option<T>> {
    let mut answers = Vec::with_capacity(pids.len());
    while let Some((&next, _)) = pids.get(answers.len()..).and_then(<[u32]>::split_first) {
        let silent = silent();
        if silent.contains(&next) || silent.len() >= LEFT_MAX {
            answers.push(None);
            continue;
        }
        let to_ask = &pids[answers.len()..];
        let to_ask = to_ask.iter().take_while(|pid| !silent.contains(pid));
        let round = Arc::new(Round::new(to_ask.copied().collect()));
        let asker = thread::Builder::new().name("mcp-lifecycle-asks".to_owned());
        let theirs = Arc::clone(&round);
        if asker.spawn(move || theirs.ask(question)).is_err() {
            // The answer must not depend on whether a thread can be started.
            round.ask(question);
        }
        let limit = if silent.is_empty() { LIMIT } else { SHORT };
        let (given, unanswered) = round.wait(limit);
        answers.extend(given.into_iter().map(Some));
        if let Some(pid) = unanswered {
            lock(&SILENT).push(Silent {
                pid,
                start_time: start_time(pid),
                has_answered: Arc::clone(&round.is_over),
            });
            answers.push(None);
        }
    }
    answers
}

/// Returns the living processes that still block a thread.
fn silent() -> Vec<u32> {
    let mut silent = lock(&SILENT);
    silent.retain(|it| {
        !it.has_answered.load(Ordering::Acquire) && start_time(it.pid) == it.start_time
    });
    silent.iter().map(|it| it.pid).collect()
}

fn start_time(pid: u32) -> Option<u64> {
    sys::see(pid).map(|seen| seen.start_time)
}

struct Round<T> {
    pids: Vec<u32>,
    answers: Mutex<Vec<T>>,
    all_are_there: Condvar,
    /// The asking thread as a directory of `/proc`, once it runs; `None` inside if that is unknown.
    asker: OnceLock<Option<PathBuf>>,
    /// The caller has given up on the rest.
    is_left: AtomicBool,
    is_over: Arc<AtomicBool>,
}

impl<T> Round<T> {
    fn new(pids: Vec<u32>) -> Self {
        Self {
            answers: Mutex::new(Vec::with_capacity(pids.len())),
            pids,
            all_are_there: Condvar::new(),
            asker: OnceLock::new(),
            is_left: AtomicBool::new(false),
            is_over: Arc::default(),
        }
    }

    fn ask(&self, question: impl Fn(u32) -> T) {
        let _over = Over(self);
        let asker = fs::read_link("/proc/thread-self").ok();
        self.asker
            .get_or_init(|| asker.map(|it| Path::new("/proc").join(it)));
        for pid in &self.pids {
            let answer = question(*pid);
            if self.is_left.load(Ordering::Acquire) {
                return;
            }
            lock(&self.answers).push(answer);
        }
    }

    /// Returns the answers until one process takes longer than `limit`, and that process.
    fn wait(&self, limit: Duration) -> (Vec<T>, Option<u32>) {
        let mut answers = lock(&self.answers);
        let (mut before, mut idle, mut busy) = (0, 0, 0);
        // A question that panicked yields no answer either.
        while idle < SLICES
            && answers.len() < self.pids.len()
            && !self.is_over.load(Ordering::Acquire)
        {
            let waited = self.all_are_there.wait_timeout(answers, limit / SLICES);
            answers = waited.unwrap_or_else(PoisonError::into_inner).0;
            match answers.len() == before {
                true if busy < BUSY_SLICES && self.waits_for_a_processor() => busy += 1,
                true => idle += 1,
                false => (before, idle) = (answers.len(), 0),
            }
        }
        self.is_left.store(true, Ordering::Release);
        let unanswered = self.pids.get(answers.len()).copied();
        (std::mem::take(&mut *answers), unanswered)
    }

    /// Returns whether the asking thread is runnable, not blocked.
    fn waits_for_a_processor(&self) -> bool {
        match self.asker.get() {
            None => true,
            Some(None) => false,
            Some(Some(asker)) => {
                sys::look_in(asker).is_ok_and(|seen| seen.is_some_and(|it| it.is_runnable))
            }
        }
    }
}

/// Marks the round as over when dropped, also by a panic.
struct Over<'a, T>(&'a Round<T>);

impl<T> Drop for Over<'_, T> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        let _answers = lock(&self.0.answers);
        self.0.all_are_there.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// One test, because the list of silent processes is shared by the whole test process.
    #[test]
    fn who_does_not_answer_is_asked_once_and_keeps_nobody_else_waiting() {
        static GATE: Mutex<()> = Mutex::new(());
        static ASKED: Mutex<Vec<u32>> = Mutex::new(Vec::new());
        let (own, parent) = (
            std::process::id(),
            nix::unistd::getppid().as_raw().unsigned_abs(),
        );
        let closed = lock(&GATE);
        let question = move |pid: u32| {
            lock(&ASKED).push(pid);
            if pid == own {
                drop(lock(&GATE));
            }
            pid
        };
        let begun = Instant::now();
        let all = [parent, own, u32::MAX];
        assert_eq!(each(&all, question), [Some(parent), None, Some(u32::MAX)]);
        assert!(begun.elapsed() >= LIMIT);
        // It is skipped while it is silent.
        assert_eq!(each(&[own, parent], question), [None, Some(parent)]);
        assert_eq!(*lock(&ASKED), [parent, own, u32::MAX, parent]);
        drop(closed);
        let end = Instant::now() + Duration::from_secs(20);
        while one(own, question).is_none() {
            assert!(Instant::now() < end, "it has answered");
            thread::yield_now();
        }
        // A question that panics has no answer either, and is not waited for.
        let panics = |_| -> u32 { panic!("a question panics") };
        assert_eq!(one(own, panics), None);
        let round = Arc::new(Round::new(vec![own]));
        let theirs = Arc::clone(&round);
        assert!(thread::spawn(move || theirs.ask(panics)).join().is_err());
        let no_test_lasts_so_long = Duration::from_hours(10);
        assert_eq!(round.wait(no_test_lasts_so_long), (vec![], Some(own)));
        assert_eq!(one(own, question), Some(own));
        // An asking thread that is only runnable does not make the process silent.
        let busy = |pid: u32| {
            let begun = Instant::now();
            while begun.elapsed() < LIMIT * 2 {
                std::hint::spin_loop();
            }
            pid
        };
        assert_eq!(one(own, busy), Some(own));
    }
}
