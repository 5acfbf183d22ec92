//! Descendants that replace each other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::unistd::setsid;

use crate::program::family::linger;
use crate::program::serve::{Plain, serve};
use crate::program::{Context, exit, sys};

/// A member that has been silent for this long is taken for dead and replaced.
const SILENCE: Duration = Duration::from_millis(5);

/// Descendants that watch each other and replace whoever is killed.
///
/// It is a fork bomb with a fuse: births are counted in memory that all share,
/// and past `--total` there are no more. It refuses to run without that cap.
pub(super) fn colony(context: Context) -> ! {
    let Some(total) = context.args.total else {
        exit::usage("colony refuses to run without a cap: --total N")
    };
    let count = context.args.count.min(total);
    sys::reap_children_automatically();
    let colony = Colony {
        births: &sys::shared_words(1)[0],
        total: u64::from(total),
        beats: sys::shared_words(count as usize),
        began: Instant::now(),
    };
    for slot in 0..colony.beats.len() {
        colony.give_birth(&context, slot);
    }
    serve(context, &mut Plain)
}

#[derive(Clone, Copy)]
struct Colony {
    births: &'static AtomicU64,
    total: u64,
    /// The time when each member was last seen, in microseconds since `began`.
    beats: &'static [AtomicU64],
    began: Instant,
}

impl Colony {
    /// Forks the member for `slot`; `false` when the cap is reached.
    fn give_birth(self, context: &Context, slot: usize) -> bool {
        if self.births.fetch_add(1, Ordering::SeqCst) >= self.total {
            return false;
        }
        self.beats[slot].store(self.now(), Ordering::SeqCst);
        let mut context = context.clone();
        sys::fork_into(context.args.lifetime, move || {
            if setsid().is_err() {
                exit::refused("setsid", "refused");
            }
            sys::report_sigterm(true);
            context.connect(&format!("colony-{slot}"));
            sys::detach_stdio(false);
            self.live(&context, slot)
        });
        true
    }

    fn live(self, context: &Context, slot: usize) {
        let Some(alive) = &context.alive else {
            exit::usage("colony refuses to run without an observer: --alive ADDRESS")
        };
        loop {
            self.beats[slot].store(self.now(), Ordering::SeqCst);
            alive.answer_for(SILENCE / 4);
            for (other, beat) in self.beats.iter().enumerate() {
                if self.claim(beat) && !self.give_birth(context, other) {
                    // Extinct but for us: what remains is to be proven dead.
                    linger(Some(alive));
                }
            }
        }
    }

    /// Returns whether a member has fallen silent, and the replacement is ours to make.
    fn claim(self, beat: &AtomicU64) -> bool {
        let now = self.now();
        let seen = beat.load(Ordering::SeqCst);
        let silent = now.saturating_sub(seen) > SILENCE.as_micros() as u64;
        silent
            && beat
                .compare_exchange(seen, now, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
    }

    fn now(self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }
}
