//! The events of one process, kept until its client has them. Pure.

use std::collections::VecDeque;

use super::event::Event;
use super::quota::Grant;
use crate::protocol::Chunk;
use crate::protocol::process::{ReadChunk, ReadResult, Stream};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// When the client has acknowledged them; it also reports consumed bytes.
    Acknowledged,
    /// A plain client does not acknowledge: this many sent bytes are kept for its reads.
    Bytes(usize),
}

const EACH: usize = 64;

/// Limit of unacknowledged events; our client acknowledges much earlier.
const MOST_EVENTS: usize = 4096;

/// The log of one process.
///
/// Nothing is dropped before it was sent: a stream with a full window is not read any further.
#[derive(Debug)]
pub(super) struct Log {
    keep: Keep,
    window: usize,
    entries: VecDeque<(u64, Event)>,
    next: u64,
    generation: u64,
    sent: u64,
    /// The cost of `entries`, held in the client's quota.
    held: usize,
    grant: Grant,
    shown: u64,
    produced: [u64; 2],
    consumed: [u64; 2],
    exit: Option<i64>,
    closed: bool,
    discarded: bool,
}

fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Stderr)
}

impl Log {
    pub(super) fn new(keep: Keep, window: usize, grant: Grant) -> Self {
        Self {
            keep,
            window,
            entries: VecDeque::new(),
            next: 1,
            generation: 0,
            sent: 0,
            held: 0,
            grant,
            shown: 0,
            produced: [0; 2],
            consumed: [0; 2],
            exit: None,
            closed: false,
            discarded: false,
        }
    }

    /// Drops all present and future output, so that the process never blocks.
    pub(super) fn discard(&mut self) {
        self.discarded = true;
        self.entries.clear();
        self.held = 0;
        self.grant.set(0);
    }

    pub(super) fn room(&self, stream: Stream) -> usize {
        if self.discarded {
            return self.window;
        }
        if self.entries.len() >= MOST_EVENTS && self.keep == Keep::Acknowledged {
            return 0;
        }
        let at = index(stream);
        let ahead = self.produced[at].saturating_sub(self.consumed[at]);
        self.window.saturating_sub(ahead as usize)
    }

    pub(super) fn push(&mut self, event: Event) {
        match &event {
            Event::Output(stream, bytes) => self.produced[index(*stream)] += bytes.len() as u64,
            Event::Exited(code) => self.exit = *code,
            Event::Closed => self.closed = true,
            Event::Gone(_) => {}
        }
        if self.discarded {
            return;
        }
        self.held += EACH + event.bytes();
        if let Some(longer) = self.join_last(&event) {
            self.held -= EACH;
            if let Some((_, last)) = self.entries.back_mut() {
                *last = longer;
            }
        } else {
            self.entries.push_back((self.next, event));
            self.next += 1;
        }
        self.grant.set(self.held);
        self.evict();
    }

    /// Joins an event with the last one, if that was not sent and both are small, which bounds the
    /// cost of single-byte writes.
    fn join_last(&self, event: &Event) -> Option<Event> {
        const SMALL: usize = 4096;
        let (seq, Event::Output(stream, last)) = self.entries.back()? else {
            return None;
        };
        let Event::Output(next_stream, next) = event else {
            return None;
        };
        let fits = stream == next_stream && last.len() + next.len() <= SMALL;
        // A number that was returned to a reader must not change.
        if !fits || *seq <= self.sent.max(self.shown) {
            return None;
        }
        let joined = [&last[..], &next[..]].concat();
        Some(Event::Output(*stream, joined.into()))
    }

    /// Returns the next event for this connection; `None` if another has replaced it.
    pub(super) fn send(&mut self, generation: u64) -> Option<(u64, Event)> {
        if generation < self.generation {
            return None;
        }
        let first = self.entries.front()?.0;
        let at = (self.sent + 1).saturating_sub(first) as usize;
        let (seq, event) = self.entries.get(at)?.clone();
        self.sent = seq;
        if let (Keep::Bytes(_), Event::Output(stream, bytes)) = (self.keep, &event) {
            self.consumed[index(*stream)] += bytes.len() as u64;
        }
        self.evict();
        Some((seq, event))
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.sent + 1 < self.next
    }

    /// Notes that the client has everything up to `seq`, and its consumed bytes.
    pub(super) fn acknowledge(&mut self, seq: u64, stdout: u64, stderr: u64) {
        // A client cannot have future events.
        let seq = seq.min(self.sent);
        while self.entries.front().is_some_and(|(first, _)| *first <= seq) {
            self.forget_first();
        }
        self.grant.set(self.held);
        for (at, told) in [stdout, stderr].into_iter().enumerate() {
            self.consumed[at] = told.clamp(self.consumed[at], self.produced[at]);
        }
    }

    pub(super) fn reattached(&mut self, generation: u64) {
        self.generation = generation;
        if self.keep == Keep::Acknowledged {
            self.sent = self.entries.front().map_or(self.next, |(first, _)| *first) - 1;
        }
    }

    pub(super) fn is_drained(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn has_exited(&self) -> bool {
        self.exit.is_some()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns whether a read after this number has something new for a reader that saw `exited`.
    pub(super) fn has_news(&self, after: u64, exited: bool) -> bool {
        let output =
            |(seq, event): &(u64, Event)| *seq > after && matches!(event, Event::Output(..));
        self.closed || self.exit.is_some() != exited || self.entries.iter().rev().any(output)
    }

    pub(super) fn read(&mut self, after: u64, max_bytes: usize) -> ReadResult {
        let mut result = ReadResult {
            next_seq: self.next,
            exited: self.exit.is_some(),
            exit_code: self.exit,
            closed: self.closed,
            ..ReadResult::default()
        };
        let mut taken = 0;
        for (seq, event) in self.entries.iter().filter(|(seq, _)| *seq > after) {
            let Event::Output(stream, bytes) = event else {
                continue;
            };
            if taken > 0 && taken + bytes.len() > max_bytes {
                result.next_seq = *seq;
                break;
            }
            taken += bytes.len();
            self.shown = self.shown.max(*seq);
            result.chunks.push(ReadChunk {
                seq: *seq,
                stream: *stream,
                chunk: Chunk(bytes.clone()),
            });
            if taken >= max_bytes {
                result.next_seq = seq + 1;
                break;
            }
        }
        result
    }

    /// Drops sent events that are kept for reads. Returns whether there were any.
    pub(super) fn forget_sent(&mut self) -> bool {
        let before = self.held;
        while matches!(self.keep, Keep::Bytes(_)) && self.first_was_sent() {
            self.forget_first();
        }
        self.grant.set(self.held);
        self.held < before
    }

    fn evict(&mut self) {
        let Keep::Bytes(kept) = self.keep else {
            return;
        };
        while self.first_was_sent() && (self.held > kept || self.grant.is_short()) {
            self.forget_first();
            self.grant.set(self.held);
        }
    }

    fn first_was_sent(&self) -> bool {
        let first = self.entries.front();
        first.is_some_and(|(seq, _)| *seq <= self.sent)
    }

    fn forget_first(&mut self) {
        if let Some((_, event)) = self.entries.pop_front() {
            self.held -= EACH + event.bytes();
        }
    }
}

#[cfg(test)]
mod tests;
