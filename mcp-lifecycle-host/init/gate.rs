//! The gate: nothing is started before somebody is attached who will see its output.
//!
//! Whoever is attached asks until both outputs answer, for an answer may be lost where the
//! output was not attached yet; then opens the gate. The last byte before the program's own
//! output is [`BEGIN`], so that answers that come late are told from it.

use crate::sys;

/// How long somebody has to open it. A host that died leaves nobody.
const PATIENCE: u64 = 60_000_000_000;

/// Questions, and what opens the gate.
const PROBE: u8 = b'?';
const OPEN: u8 = b'!';
const ANSWER: &[u8] = &[0x06];
const BEGIN: &[u8] = &[0x02];

/// Nobody has opened it: as if a terminal had hung up.
const EXIT_HUNG_UP: i32 = 128 + 1;

/// Returns once the gate is open.
pub(crate) fn wait(signals: i32) {
    let end = sys::now().saturating_add(PATIENCE);
    loop {
        let Some(left) = end.checked_sub(sys::now()) else {
            sys::exit(EXIT_HUNG_UP)
        };
        if sys::wait_for_data(0, signals, left) {
            let mut byte = [0];
            match (sys::read(0, &mut byte), byte) {
                // Somebody else's signal may have been first.
                (Err(_), _) => {}
                (Ok(0), _) => sys::exit(EXIT_HUNG_UP),
                (_, [PROBE]) => say(ANSWER),
                (_, [OPEN]) => return say(BEGIN),
                _ => sys::exit(EXIT_HUNG_UP),
            }
        }
        while let Some(signal) = sys::next_signal(signals) {
            if signal != sys::SIGCHLD {
                sys::exit(128 + signal)
            }
        }
    }
}

fn say(word: &[u8]) {
    let _ = sys::write(1, word);
    let _ = sys::write(2, word);
}
