//! Counts what one turn of a path costs, in the process that takes it.

use std::fmt::Write as _;

use nix::sys::resource::{UsageWho, getrusage};

use crate::alloc::Heap;

/// The file that is looked for where a measured part begins: `strace` shows it. There is none of that name.
pub(crate) const BEGIN: &str = "/counts/begin";
/// Where it ends.
pub(crate) const END: &str = "/counts/end";
/// Where all turns begin, after those that warm up.
pub(crate) const FIRST: &str = "/counts/first";
/// Where all turns have ended.
pub(crate) const LAST: &str = "/counts/last";

/// The part of the turns that is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// What is measured, turn by turn: the middle one.
    Inside,
    /// All of it, with what goes on after whoever waits for it has heard: from the first turn to the last.
    Whole,
}

impl Part {
    /// The count of a turn: the middle one of what was measured, or `all` by their number.
    pub(crate) fn of(self, inside: Spread, turns: usize, all: u64) -> u64 {
        let turns = turns.max(1) as u64;
        match self {
            Self::Inside => inside.median,
            Self::Whole => (all + turns / 2) / turns,
        }
    }
}

/// What was counted, turn by turn.
#[derive(Debug)]
pub(crate) struct Meter {
    allocations: Vec<u64>,
    bytes: Vec<u64>,
    waits: Vec<u64>,
    first: Heap,
    last: Heap,
}

impl Meter {
    /// For so many turns: nothing is allocated for them later.
    pub(crate) fn new(turns: usize) -> Self {
        let room = || Vec::with_capacity(turns);
        Self {
            allocations: room(),
            bytes: room(),
            waits: room(),
            first: Heap::now(),
            last: Heap::now(),
        }
    }

    /// The turns begin.
    pub(crate) fn first(&mut self) {
        mark(FIRST);
        self.first = Heap::now();
    }

    /// The turns are over.
    pub(crate) fn last(&mut self) {
        self.last = Heap::now();
        mark(LAST);
    }

    /// Counts what `path` costs.
    pub(crate) async fn turn<T>(&mut self, path: impl Future<Output = T>) -> T {
        let waited = waits();
        mark(BEGIN);
        let before = Heap::now();
        let done = path.await;
        let after = Heap::now();
        mark(END);
        let waited = waits() - waited;
        self.allocations
            .push(after.allocations - before.allocations);
        self.bytes.push(after.bytes - before.bytes);
        self.waits.push(waited);
        done
    }

    /// The counts of a turn, a line each: name, value, least and most of the turns.
    pub(crate) fn report(self, part: Part) -> String {
        let turns = self.waits.len();
        let all = |count: fn(Heap) -> u64| count(self.last) - count(self.first);
        let (allocations, bytes) = (all(|heap| heap.allocations), all(|heap| heap.bytes));
        let mut lines = String::new();
        for (name, counts, all) in [
            ("allocations", self.allocations, allocations),
            ("bytes", self.bytes, bytes),
            ("waits", self.waits, 0),
        ] {
            let spread = Spread::of(counts);
            let count = part.of(spread, turns, all);
            let _ = writeln!(lines, "{name} {count} {} {}", spread.least, spread.most);
        }
        lines
    }
}

/// Shows `strace` where we are.
fn mark(name: &str) {
    let _ = std::fs::metadata(name);
}

/// How often a thread of this process went to sleep by itself.
fn waits() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF);
    usage.map_or(0, |usage| usage.voluntary_context_switches().unsigned_abs())
}

/// The middle of several turns, and how far they are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) median: u64,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl Spread {
    pub(crate) fn of(mut turns: Vec<u64>) -> Self {
        turns.sort_unstable();
        let at = |at: usize| turns.get(at).copied().unwrap_or(0);
        Self {
            median: at(turns.len() / 2),
            least: at(0),
            most: at(turns.len().saturating_sub(1)),
        }
    }
}
