//! The events of one process, kept until its client has them. Pure.

use std::collections::VecDeque;

use super::event::Event;
use crate::protocol::Chunk;
use crate::protocol::process::{ReadChunk, ReadResult, Stream};

/// When events may be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// When the client has acknowledged them; it also says what it consumed.
    Acknowledged,
    /// A plain client says nothing: this many bytes that were sent are kept,
    /// for its reads.
    Bytes(usize),
}

/// The log of one process.
///
/// Nothing is dropped before it was sent: a stream of which a window waits is
/// not read any further.
#[derive(Debug)]
pub(super) struct Log {
    keep: Keep,
    window: usize,
    entries: VecDeque<(u64, Event)>,
    next: u64,
    /// The present connection; the first one finds no log.
    generation: u64,
    /// Everything up to here was sent on the present connection.
    sent: u64,
    /// Bytes in `entries`.
    held: usize,
    /// Bytes that went in, and that count as out, of each stream.
    produced: [u64; 2],
    consumed: [u64; 2],
    exit: Option<i64>,
    closed: bool,
    /// Nobody will ever want it.
    discarded: bool,
}

fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Stderr)
}

impl Log {
    pub(super) fn new(keep: Keep, window: usize) -> Self {
        Self {
            keep,
            window,
            entries: VecDeque::new(),
            next: 1,
            generation: 0,
            sent: 0,
            held: 0,
            produced: [0; 2],
            consumed: [0; 2],
            exit: None,
            closed: false,
            discarded: false,
        }
    }

    /// Nobody will ever want it: what comes is thrown away, and there is
    /// always room, so that nothing gets stuck.
    pub(super) fn discard(&mut self) {
        self.discarded = true;
        self.entries.clear();
        self.held = 0;
    }

    /// How many bytes of this stream there is room for.
    pub(super) fn room(&self, stream: Stream) -> usize {
        if self.discarded {
            return self.window;
        }
        let at = index(stream);
        let ahead = self.produced[at].saturating_sub(self.consumed[at]);
        self.window.saturating_sub(ahead as usize)
    }

    pub(super) fn push(&mut self, event: Event) {
        match &event {
            Event::Output(stream, bytes) => self.produced[index(*stream)] += bytes.len() as u64,
            Event::Exited(code) => self.exit = Some(*code),
            Event::Closed => self.closed = true,
            Event::Gone { .. } => {}
        }
        if self.discarded {
            return;
        }
        self.held += event.bytes();
        self.entries.push_back((self.next, event));
        self.next += 1;
    }

    /// The next event to send on this connection; nothing on one that another
    /// has replaced.
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

    /// The client has everything up to `seq`, and consumed this much in all.
    pub(super) fn acknowledge(&mut self, seq: u64, stdout: u64, stderr: u64) {
        // A client cannot have what does not exist yet.
        let seq = seq.min(self.sent);
        while self.entries.front().is_some_and(|(first, _)| *first <= seq) {
            self.forget_first();
        }
        for (at, told) in [stdout, stderr].into_iter().enumerate() {
            self.consumed[at] = told.clamp(self.consumed[at], self.produced[at]);
        }
    }

    /// Another connection: what was sent on the last one may not have arrived.
    pub(super) fn reattached(&mut self, generation: u64) {
        self.generation = generation;
        if self.keep == Keep::Acknowledged {
            self.sent = self.entries.front().map_or(self.next, |(first, _)| *first) - 1;
        }
    }

    /// Whether the client needs nothing of it any more.
    pub(super) fn is_drained(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// What `process/read` answers.
    pub(super) fn read(&self, after: u64, max_bytes: usize) -> ReadResult {
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

    fn evict(&mut self) {
        let Keep::Bytes(kept) = self.keep else {
            return;
        };
        while self.held > kept
            && self
                .entries
                .front()
                .is_some_and(|(seq, _)| *seq <= self.sent)
        {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, event)) = self.entries.pop_front() {
            self.held -= event.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(size: usize) -> Event {
        Event::Output(Stream::Stdout, vec![7; size].into())
    }

    #[test]
    fn a_stream_that_nobody_consumes_fills_its_window_and_no_other() {
        let mut log = Log::new(Keep::Acknowledged, 100);
        log.push(output(100));
        assert_eq!(
            (log.room(Stream::Stdout), log.room(Stream::Stderr)),
            (0, 100)
        );
        log.send(1);
        assert_eq!(log.room(Stream::Stdout), 0, "sent is not consumed");
        log.acknowledge(1, 40, 0);
        assert_eq!(log.room(Stream::Stdout), 40);
    }

    #[test]
    fn what_was_not_acknowledged_is_sent_again_on_another_connection() {
        let mut log = Log::new(Keep::Acknowledged, 100);
        log.push(output(1));
        log.push(output(2));
        log.push(Event::Exited(0));
        while log.send(1).is_some() {}
        log.acknowledge(1, 0, 0);
        log.reattached(1);
        let again: Vec<u64> = std::iter::from_fn(|| log.send(1))
            .map(|(seq, _)| seq)
            .collect();
        assert_eq!(again, [2, 3]);
        log.acknowledge(3, 3, 0);
        assert!(log.is_drained() && !log.has_unsent());
        log.reattached(1);
        assert!(log.send(1).is_none());
        log.push(Event::Closed);
        assert_eq!(log.send(1).map(|(seq, _)| seq), Some(4));
    }

    #[test]
    fn a_connection_that_was_replaced_takes_nothing_from_the_one_that_replaced_it() {
        let mut log = Log::new(Keep::Acknowledged, 100);
        log.push(output(1));
        log.reattached(2);
        assert!(log.send(1).is_none());
        assert_eq!(log.send(2).map(|(seq, _)| seq), Some(1));
    }

    #[test]
    fn a_plain_client_reads_back_what_is_kept() {
        let mut log = Log::new(Keep::Bytes(10), 100);
        for _ in 0..4 {
            log.push(output(4));
        }
        log.push(Event::Exited(3));
        assert_eq!(log.read(0, 1000).chunks.len(), 4, "unsent is never dropped");
        while log.send(1).is_some() {}
        let read = log.read(0, 5);
        assert_eq!(
            (read.chunks[0].seq, read.next_seq, read.exit_code),
            (3, 4, Some(3))
        );
        assert_eq!(log.read(4, 5).next_seq, 6);
        assert_eq!(log.room(Stream::Stdout), 100);
    }

    #[test]
    fn a_hostile_acknowledgement_changes_nothing_it_should_not() {
        let mut log = Log::new(Keep::Acknowledged, 100);
        log.push(output(10));
        log.acknowledge(u64::MAX, u64::MAX, u64::MAX);
        assert!(!log.is_drained(), "it was not sent yet");
        assert_eq!(log.room(Stream::Stdout), 100);
        log.acknowledge(0, 0, 0);
        assert_eq!(log.room(Stream::Stdout), 100);
    }
}
