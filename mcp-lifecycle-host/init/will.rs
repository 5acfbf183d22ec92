//! The last will of a host: its containers are removed when it has gone.
//!
//! `mcp-init --last-will SOCKET GRACE-MS LIMIT-MS [CONTAINERS IMAGES]` is a child of the host
//! and reads lines from it: `+NAME` for a container that is to be removed, by id or
//! name, `-NAME` for one that is gone. The end of input is the end of the host,
//! however it came. What leaves at the end of its own input has the grace for it;
//! then the daemon behind the socket is told to remove the rest, by force.
//!
//! `CONTAINERS` is a request for all that the host may have created without knowing
//! it yet, `IMAGES` one for the images whose containers are not its own, though they
//! look like it. A create that was under way comes true late: so it is looked for,
//! and told, until nothing has come for some time. A daemon that does not answer,
//! for it is being restarted, is asked again, until the limit.

use crate::answers::{self, ID};
use crate::sys;

/// So many containers at a time; the host counts them as well.
const MOST: usize = 1024;
/// So many removals at a time, unless they take long: the next ones wait no longer.
const AT_ONCE: usize = 16;
const LONG: u64 = 250_000_000;
/// How long the answers to one round are waited for.
const ROUND: u64 = 15_000_000_000;
/// Between two rounds.
const PAUSE: u64 = 250_000_000;
/// How long it is looked for what comes late.
const LATE: u64 = 4_000_000_000;

/// The requests for what is found by its labels.
pub(crate) struct Queries<'a> {
    pub(crate) containers: &'a [u8],
    pub(crate) images: &'a [u8],
}

/// Ids or names, filled up with zeros.
struct Names {
    all: [[u8; ID]; MOST],
    count: usize,
}

/// Waits for the end of the host and carries out its will.
pub(crate) fn run(socket: &[u8], grace: u64, limit: u64, queries: Option<Queries<'_>>) -> ! {
    // Whoever ends the host politely must not end this before it.
    sys::block_all_signals();
    // Whoever waits for the end of what the host had open does not wait for this.
    sys::close_from(3);
    let mut names = Names::new();
    names.read();
    if names.count == 0 && queries.is_none() {
        sys::exit(0)
    }
    let end = sys::now().saturating_add(limit);
    sys::sleep(grace);
    let (mut heard, mut quiet_since) = (false, None);
    while sys::now() < end {
        let until = || end.min(sys::now().saturating_add(ROUND));
        heard = names.remove(socket, until());
        let found = match &queries {
            Some(queries) => find(socket, queries, until()),
            None => Some(Names::new()),
        };
        let is_quiet = match found {
            Some(found) => found.remove(socket, until()) && found.count == 0,
            None => false,
        };
        let now = sys::now();
        quiet_since = match quiet_since {
            _ if !is_quiet || !heard => None,
            None => Some(now),
            since => since,
        };
        if quiet_since.is_some_and(|since| now.saturating_sub(since) >= LATE) {
            sys::exit(0)
        }
        sys::sleep(PAUSE);
    }
    sys::exit(i32::from(!heard))
}

/// Finds the containers that are the host's by their labels; `None` when the daemon does not tell.
fn find(socket: &[u8], queries: &Queries<'_>, until: u64) -> Option<Names> {
    let mut images = Names::new();
    answers::images(socket, queries.images, until, &mut |image| images.add(image))?;
    let mut found = Names::new();
    answers::containers(socket, queries.containers, until, &mut |container, image| {
        // Somebody else's, run from what was made of one of the host's.
        if !images.has(image) {
            found.add(container);
        }
    })?;
    // Not all of them are known.
    (images.count < MOST).then_some(found)
}

impl Names {
    fn new() -> Self {
        Self { all: [[0; ID]; MOST], count: 0 }
    }

    fn known(&self) -> &[[u8; ID]] {
        self.all.get(..self.count).unwrap_or_default()
    }

    fn has(&self, name: &[u8; ID]) -> bool {
        self.known().contains(name)
    }

    fn add(&mut self, name: &[u8; ID]) {
        if !self.has(name)
            && let Some(place) = self.all.get_mut(self.count)
        {
            *place = *name;
            self.count += 1;
        }
    }

    /// Reads until the end of input.
    fn read(&mut self) {
        let (mut sign, mut name, mut filled) = (0, [0; ID], 0_usize);
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = sys::read(0, &mut buffer) {
            for &byte in buffer.iter().take(read) {
                if byte != b'\n' {
                    match filled.checked_sub(1) {
                        None => sign = byte,
                        Some(at) => {
                            if let Some(place) = name.get_mut(at) {
                                *place = byte;
                            }
                        }
                    }
                    filled = filled.saturating_add(1);
                    continue;
                }
                if (2..=ID + 1).contains(&filled) && name.iter().all(|&byte| is_fit(byte)) {
                    self.note(sign, &name);
                }
                (name, filled) = ([0; ID], 0);
            }
        }
    }

    fn note(&mut self, sign: u8, name: &[u8; ID]) {
        match sign {
            b'+' => self.add(name),
            b'-' => {
                if let Some(at) = self.known().iter().position(|known| known == name) {
                    self.count -= 1;
                    self.all.swap(at, self.count);
                }
            }
            _ => {}
        }
    }

    /// Orders them all away, and then waits for the answers. Whether the daemon says of
    /// every one that it is gone.
    fn remove(&self, socket: &[u8], until: u64) -> bool {
        let mut answers = [None; MOST];
        let mut gone = 0;
        for (names, answers) in self.known().chunks(AT_ONCE).zip(answers.chunks_mut(AT_ONCE)) {
            let long = until.min(sys::now().saturating_add(LONG));
            for (name, answer) in names.iter().zip(answers.iter_mut()) {
                *answer = order(socket, name, long);
            }
            gone += taken(answers, long);
        }
        gone += taken(&mut answers, until);
        for answer in answers.into_iter().flatten() {
            sys::close(answer);
        }
        gone == self.count
    }
}

/// Takes the answers that come by then; how many say that a container is gone.
fn taken(answers: &mut [Option<i32>], until: u64) -> usize {
    let mut gone = 0;
    for answer in answers {
        if let Some(daemon) = *answer
            && let Some(is_gone) = answers::is_gone(daemon, until)
        {
            sys::close(daemon);
            *answer = None;
            gone += usize::from(is_gone);
        }
    }
    gone
}

/// Returns whether the byte may be part of a name, or of what fills it up.
fn is_fit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | 0)
}

/// Orders a removal; the descriptor that the answer comes from. The engine need not go
/// on with it once that is closed.
fn order(socket: &[u8], name: &[u8; ID], until: u64) -> Option<i32> {
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(ID);
    let name = name.get(..length).unwrap_or_default();
    let rest: &[u8] = b"?force=1&v=1 HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n";
    sys::ask(socket, &[b"DELETE /containers/", name, rest], until)
}
