//! The last will of a host: its containers are removed when it has gone.
//!
//! `mcp-init --last-will SOCKET GRACE-MS` is a child of the host and reads lines
//! from it: `+ID` for a container that is to be removed, `-ID` for one that is
//! gone. The end of input is the end of the host, however it came. What leaves
//! at the end of its own input has the grace for it; then the daemon behind the
//! socket is told to remove the rest, by force. One that does not answer, for it
//! is being restarted, is asked again.

use crate::sys;

/// The length of a container's id.
const ID: usize = 64;
/// So many containers at a time; the host counts them as well.
const MOST: usize = 1024;
/// So many removals at a time.
const AT_ONCE: usize = 16;
/// How often a daemon is asked that does not answer, a second apart.
const ATTEMPTS: u32 = 60;
const SECOND: u64 = 1_000_000_000;

struct Will {
    ids: [[u8; ID]; MOST],
    count: usize,
}

/// Waits for the end of the host and carries out its will.
pub(crate) fn run(socket: &[u8], grace: u64) -> ! {
    // Whoever ends the host politely must not end this before it.
    sys::block_all_signals();
    let mut will = Will { ids: [[0; ID]; MOST], count: 0 };
    will.read();
    if will.count == 0 {
        sys::exit(0)
    }
    sys::sleep(grace);
    for _ in 0..ATTEMPTS {
        if will.carry_out(socket) {
            sys::exit(0)
        }
        sys::sleep(SECOND);
    }
    sys::exit(1)
}

impl Will {
    /// Reads until the end of input.
    fn read(&mut self) {
        let (mut line, mut filled) = ([0; ID + 1], 0_usize);
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = sys::read(0, &mut buffer) {
            for &byte in buffer.iter().take(read) {
                if byte != b'\n' {
                    if let Some(place) = line.get_mut(filled) {
                        *place = byte;
                    }
                    filled = filled.saturating_add(1);
                    continue;
                }
                if let (true, [sign, id @ ..]) = (filled == ID + 1, &line) {
                    self.note(*sign, id);
                }
                filled = 0;
            }
        }
    }

    fn note(&mut self, sign: u8, id: &[u8; ID]) {
        let known = self.ids.iter().take(self.count).position(|known| known == id);
        match (sign, known) {
            (b'+', None) => {
                if let Some(place) = self.ids.get_mut(self.count) {
                    *place = *id;
                    self.count += 1;
                }
            }
            (b'-', Some(at)) => {
                self.count -= 1;
                self.ids.swap(at, self.count);
            }
            _ => {}
        }
    }

    /// Whether the daemon has heard of every one of them.
    fn carry_out(&self, socket: &[u8]) -> bool {
        self.ids.get(..self.count).unwrap_or_default().chunks(AT_ONCE).all(|ids| {
            let mut answers = [None; AT_ONCE];
            for (id, answer) in ids.iter().zip(&mut answers) {
                *answer = order(socket, id);
            }
            let heard = answers.iter().flatten().count() == ids.len();
            for answer in answers.into_iter().flatten() {
                // It is told when the container is gone.
                while let Ok(1..) = sys::read(answer, &mut [0; 512]) {}
                sys::close(answer);
            }
            heard
        })
    }
}

/// Orders a removal; the descriptor that the answer comes from.
fn order(socket: &[u8], id: &[u8; ID]) -> Option<i32> {
    let daemon = sys::connect(socket).ok()?;
    let parts: [&[u8]; 3] = [
        b"DELETE /containers/",
        id,
        b"?force=1&v=1 HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n",
    ];
    for part in parts {
        if sys::write(daemon, part) != Ok(part.len()) {
            sys::close(daemon);
            return None;
        }
    }
    Some(daemon)
}
