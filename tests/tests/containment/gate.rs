//! A `/proc` that answers when the test lets it: what a machine with very many
//! processes, or a hung one, is to a host.

#[path = "../common/asked.rs"]
mod asked;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};
use std::thread;

use nix::libc;

use crate::stage::LIMIT;
use asked::{Call, EQUALS, LOAD, Listener, NUMBER, RETURN, step};

/// Where whoever opens something below `/proc` waits while it is closed.
pub(crate) struct Gate(Arc<Shared>);

struct Shared {
    listener: Listener,
    state: Mutex<State>,
    somebody_waits: Condvar,
}

#[derive(Default)]
struct State {
    /// Which files are held back, by the end of their path.
    closed: Option<&'static str>,
    held: Vec<Call>,
}

impl Gate {
    /// Put before the calling thread and all that it starts from now on; open.
    pub(crate) fn new() -> Self {
        let (tell, told) = mpsc::channel::<Listener>();
        let (share, shared) = mpsc::channel();
        // Started before the filter, it is not asked about itself.
        thread::spawn(move || {
            let gate = Arc::new(Shared {
                listener: told.recv().unwrap(),
                state: Mutex::default(),
                somebody_waits: Condvar::new(),
            });
            share.send(Arc::clone(&gate)).unwrap();
            loop {
                if let Some(call) = gate.listener.receive() {
                    gate.answer(call);
                }
            }
        });
        let open = u32::try_from(libc::SYS_openat).unwrap();
        let program = vec![
            step(LOAD, 0, NUMBER),
            step(EQUALS, 1, open),
            step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
            step(RETURN, 0, libc::SECCOMP_RET_USER_NOTIF),
        ];
        tell.send(asked::install(program).unwrap().into()).unwrap();
        Self(shared.recv().unwrap())
    }

    /// Has whoever opens a file below `/proc` whose path ends in `end` wait, until
    /// what this returns is dropped.
    pub(crate) fn close(&self, end: &'static str) -> Closed<'_> {
        self.0.lock().closed = Some(end);
        Closed(self)
    }
}

/// A gate that is closed.
pub(crate) struct Closed<'a>(&'a Gate);

impl Closed<'_> {
    /// Waits until somebody waits.
    pub(crate) fn somebody_waits(&self) {
        let shared = &self.0.0;
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
        let mut state = self.0.0.lock();
        state.closed = None;
        for call in state.held.drain(..) {
            self.0.0.listener.answer(call, None);
        }
    }
}

impl Shared {
    fn answer(&self, call: Call) {
        let mut state = self.lock();
        let path = path_of(&call).unwrap_or_default();
        // A panic looks at its own process.
        let is_others = path.starts_with("/proc") && !path.starts_with("/proc/self");
        if call.number == libc::SYS_openat
            && is_others
            && state.closed.is_some_and(|end| path.ends_with(end))
        {
            state.held.push(call);
            self.somebody_waits.notify_all();
        } else {
            self.listener.answer(call, None);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// What a thread of this process opens; nothing of what others do.
fn path_of(call: &Call) -> Option<String> {
    let own = Path::new("/proc/self/task").join(call.thread.to_string());
    let memory = File::open(own.join("mem")).ok()?;
    let mut bytes = [0; 64];
    // It may be near the end of what is mapped.
    let read = (1..=64)
        .rev()
        .find_map(|length| memory.read_at(&mut bytes[..length], call.args[1]).ok())?;
    let path = bytes[..read].split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(path).into_owned())
}
