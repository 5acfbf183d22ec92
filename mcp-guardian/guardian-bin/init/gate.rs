//! The gate: the program starts only after a client is attached that receives its output.
//!
//! The client probes until both outputs answer, since an answer is lost while an output is not
//! attached; then it opens the gate. [`BEGIN`] separates late answers from the program's output.

use crate::sys::{self, Fd, PollFd, STDERR, STDIN, STDOUT, Signal};

/// Time limit, for the case that the host died.
const PATIENCE: u64 = 60_000_000_000;

const PROBE: u8 = b'?';
const OPEN: u8 = b'!';
const ANSWER: &[u8] = &[0x06];
const BEGIN: &[u8] = &[0x02];

/// Exit code of a gate that was not opened, as after SIGHUP.
const EXIT_HUNG_UP: i32 = 128 + 1;

pub(crate) fn wait(signals: &Fd) {
    let end = sys::now().saturating_add(PATIENCE);
    loop {
        let Some(left) = end.checked_sub(sys::now()) else {
            sys::exit(EXIT_HUNG_UP)
        };
        let mut fds = [PollFd::readable(Some(&STDIN)), PollFd::readable(Some(signals))];
        sys::poll(&mut fds, Some(left));
        if fds[0].ready() {
            let mut byte = [0];
            match (sys::read(&STDIN, &mut byte), byte) {
                (Err(_), _) => {}
                (Ok(0), _) => sys::exit(EXIT_HUNG_UP),
                (_, [PROBE]) => say(ANSWER),
                (_, [OPEN]) => return say(BEGIN),
                _ => sys::exit(EXIT_HUNG_UP),
            }
        }
        while let Some((signal, _)) = sys::next_signal(signals) {
            if signal != Signal::CHLD {
                sys::exit(128 + i32::from(signal.number()))
            }
        }
    }
}

fn say(word: &[u8]) {
    let _ = sys::write(&STDOUT, word);
    let _ = sys::write(&STDERR, word);
}
