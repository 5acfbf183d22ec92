//! A `/proc` that answers when the test lets it: what a machine with very many
//! processes, or a hung one, is to a host.

#[path = "../common/asked.rs"]
mod asked;

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};
use std::thread;

use nix::libc::{self, c_long};

use crate::stage::LIMIT;
pub(crate) use asked::{Call, Listener};
use asked::{EQUALS, LOAD, NUMBER, RETURN, step};

/// Has these calls of the calling thread, and of all that it starts from now on,
/// answered by `judge`, on a thread of its own.
pub(crate) fn ask_about(
    numbers: &[c_long],
    mut judge: impl FnMut(&Listener, Call) + Send + 'static,
) -> Arc<Listener> {
    let (tell, told) = mpsc::channel::<Arc<Listener>>();
    // Started before the filter, it is not asked about itself.
    thread::spawn(move || {
        let listener = told.recv().unwrap();
        loop {
            if let Some(call) = listener.receive() {
                judge(&listener, call);
            }
        }
    });
    let mut program = vec![step(LOAD, 0, NUMBER)];
    for (at, number) in numbers.iter().enumerate() {
        let to_ask = u8::try_from(numbers.len() - at).unwrap();
        program.push(step(EQUALS, to_ask, u32::try_from(*number).unwrap()));
    }
    program.push(step(RETURN, 0, libc::SECCOMP_RET_ALLOW));
    program.push(step(RETURN, 0, libc::SECCOMP_RET_USER_NOTIF));
    let listener = Arc::new(Listener::from(asked::install(program).unwrap()));
    tell.send(Arc::clone(&listener)).unwrap();
    listener
}

/// Where whoever opens something below `/proc` waits while it is closed.
pub(crate) struct Gate {
    listener: Arc<Listener>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    somebody_waits: Condvar,
}

#[derive(Default)]
struct State {
    /// Which files are held back, by the end of their path.
    closed: Option<&'static str>,
    held: Vec<Call>,
}

/// More than there are threads that could wait.
const HELD_MAX: usize = 256;

impl Gate {
    /// Put before the calling thread and all that it starts from now on; open.
    pub(crate) fn new() -> Self {
        let shared = Arc::<Shared>::default();
        shared.lock().held.reserve(HELD_MAX);
        let gate = Arc::clone(&shared);
        let memory = File::open("/proc/self/mem").unwrap();
        let listener = ask_about(&[libc::SYS_openat], move |listener, call| {
            gate.answer(&memory, listener, call);
        });
        Self { listener, shared }
    }

    /// Has whoever opens a file below `/proc` whose path ends in `end` wait, until
    /// what this returns is dropped.
    pub(crate) fn close(&self, end: &'static str) -> Closed<'_> {
        self.shared.lock().closed = Some(end);
        Closed(self)
    }
}

/// A gate that is closed.
pub(crate) struct Closed<'a>(&'a Gate);

impl Closed<'_> {
    /// Waits until somebody waits.
    pub(crate) fn somebody_waits(&self) {
        let shared = &self.0.shared;
        let state = shared.lock();
        let nobody = |state: &mut State| state.held.is_empty();
        let waited = shared
            .somebody_waits
            .wait_timeout_while(state, LIMIT, nobody);
        assert!(!waited.unwrap().1.timed_out(), "nobody opens it");
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let mut state = self.0.shared.lock();
        state.closed = None;
        for call in state.held.drain(..) {
            self.0.listener.answer(call, None);
        }
    }
}

impl Shared {
    /// Allocates nothing: whoever asks may be an allocation, under its lock.
    fn answer(&self, memory: &File, listener: &Listener, call: Call) {
        let mut state = self.lock();
        let mut bytes = [0; PATH_MAX];
        let path = path_of(memory, &call, &mut bytes).unwrap_or_default();
        // Allocations and panics look at their own process and at the machine.
        let own = [&b"/self"[..], b"/thread-self", b"/sys"];
        let is_others = match path.strip_prefix(b"/proc") {
            Some(rest) => !own.iter().any(|own| rest.starts_with(own)),
            // In a `/proc` that is open.
            None => path == b"." || path.first().is_some_and(u8::is_ascii_digit),
        };
        if is_others
            && state
                .closed
                .is_some_and(|end| path.ends_with(end.as_bytes()))
        {
            state.held.push(call);
            self.somebody_waits.notify_all();
        } else {
            listener.answer(call, None);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

const PATH_MAX: usize = 64;

/// The path that a thread of this process opens; `None` for calls of others.
fn path_of<'a>(memory: &File, call: &Call, bytes: &'a mut [u8; PATH_MAX]) -> Option<&'a [u8]> {
    let mut own = [0; PATH_MAX];
    write!(&mut own[..], "/proc/self/task/{}", call.thread).ok()?;
    let own = own.split(|byte| *byte == 0).next()?;
    if !Path::new(OsStr::from_bytes(own)).exists() {
        return None;
    }
    // It may be near the end of what is mapped.
    let mut lengths = (1..=PATH_MAX).rev();
    let read =
        lengths.find_map(|length| memory.read_at(&mut bytes[..length], call.args[1]).ok())?;
    bytes[..read].split(|byte| *byte == 0).next()
}
