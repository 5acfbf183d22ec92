//! The last will of a host: removes its containers when the host is gone.
//!
//! `mcp-init --last-will SOCKET GRACE-MS LIMIT-MS CONTAINERS IMAGES` is a child of the host, which
//! has ended when stdin ends. Servers that exit at the end of their own input have the grace to do
//! so; then the daemon behind the socket is asked to remove the rest by force, by ID only: another
//! container may have taken the name.
//!
//! `CONTAINERS` is a request for all containers of the host; `IMAGES` is one for images built from
//! them, whose containers carry the host's labels, but are not its own. Creations in flight may
//! complete late, so the search repeats until nothing new has appeared for some time.

use super::answers::{self, ID};
use crate::sys::{self, Args, Fd, STDIN, Signals};

const MOST: usize = 1024;
/// Concurrent removals; a slow batch does not delay the next.
const AT_ONCE: usize = 16;
const LONG: u64 = 250_000_000;
const ROUND: u64 = 15_000_000_000;
const PAUSE: u64 = 250_000_000;
/// Time in which late creations are searched for.
const LATE: u64 = 4_000_000_000;

struct Ids {
    all: [[u8; ID]; MOST],
    count: usize,
}

pub(crate) fn run(args: &Args) -> ! {
    let text = |index| args.get(index).map(core::ffi::CStr::to_bytes);
    let (Some(socket), Some(containers), Some(images)) = (text(2), text(5), text(6)) else {
        sys::exit(crate::EXIT_USAGE)
    };
    let Some((grace, limit)) = super::time(args, 3).zip(super::time(args, 4)) else {
        sys::exit(crate::EXIT_USAGE)
    };
    // A signal that ends the host must not end this first.
    sys::block(Signals::ALL);
    // Others may wait for the end of descriptors that the host had open.
    crate::close_inherited_but(3, []);
    while let Ok(1..) = sys::read(&STDIN, &mut [0; 16]) {}
    let end = sys::now().saturating_add(limit);
    sys::poll(&mut [], Some(grace));
    let (mut all_gone, mut quiet_since) = (false, None);
    while sys::now() < end {
        let until = || end.min(sys::now().saturating_add(ROUND));
        let found = find(socket, containers, images, until());
        let is_quiet = found.as_ref().is_some_and(|found| found.count == 0);
        all_gone = found.is_some_and(|found| found.remove(socket, until()));
        let now = sys::now();
        quiet_since = match quiet_since {
            _ if !is_quiet => None,
            None => Some(now),
            since => since,
        };
        if quiet_since.is_some_and(|since| now.saturating_sub(since) >= LATE) {
            sys::exit(0)
        }
        sys::poll(&mut [], Some(PAUSE));
    }
    sys::exit(i32::from(!all_gone))
}

/// Finds the host's containers by label; `None` without a complete response.
fn find(socket: &[u8], containers: &[u8], images: &[u8], until: u64) -> Option<Ids> {
    let mut built = Ids::new();
    answers::images(socket, images, until, &mut |image| built.add(image))?;
    let mut found = Ids::new();
    answers::containers(socket, containers, until, &mut |container, image| {
        // Run by others from an image that was made of a host's container.
        if !built.has(image) {
            found.add(container);
        }
    })?;
    // With a full list, some images are unknown.
    (built.count < MOST).then_some(found)
}

impl Ids {
    fn new() -> Self {
        Self { all: [[0; ID]; MOST], count: 0 }
    }

    fn known(&self) -> &[[u8; ID]] {
        self.all.get(..self.count).unwrap_or_default()
    }

    fn has(&self, id: &[u8; ID]) -> bool {
        self.known().contains(id)
    }

    fn add(&mut self, id: &[u8; ID]) {
        if !self.has(id)
            && let Some(place) = self.all.get_mut(self.count)
        {
            *place = *id;
            self.count += 1;
        }
    }

    /// Requests all removals, then reads the responses. Returns whether every container is gone.
    fn remove(&self, socket: &[u8], until: u64) -> bool {
        let mut answers = [const { None }; MOST];
        let mut gone = 0;
        for (ids, answers) in self.known().chunks(AT_ONCE).zip(answers.chunks_mut(AT_ONCE)) {
            let long = until.min(sys::now().saturating_add(LONG));
            for (id, answer) in ids.iter().zip(answers.iter_mut()) {
                *answer = order(socket, id, long);
            }
            gone += taken(answers, long);
        }
        gone += taken(&mut answers, until);
        gone == self.count
    }
}

/// Reads the responses that arrive in time. Returns how many containers are gone.
fn taken(answers: &mut [Option<Fd>], until: u64) -> usize {
    let mut gone = 0;
    for answer in answers {
        if let Some(daemon) = &*answer
            && let Some(is_gone) = answers::is_gone(daemon, until)
        {
            *answer = None;
            gone += usize::from(is_gone);
        }
    }
    gone
}

/// Requests a removal and returns the descriptor for the response. The engine may abort the removal
/// when that is closed.
fn order(socket: &[u8], id: &[u8; ID], until: u64) -> Option<Fd> {
    let rest: &[u8] = b"?force=1&v=1 HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n";
    answers::ask(socket, &[b"DELETE /containers/", id, rest], until)
}
