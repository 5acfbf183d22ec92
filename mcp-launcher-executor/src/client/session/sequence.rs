use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

pub(crate) use crate::protocol::process::ProcessEvent;
use crate::protocol::process::ReadResult;

const EARLY_LIMIT: usize = 65_536;
const EARLY_BYTES: usize = 64 << 20;

/// The order of one process's events.
///
/// Numbers start at 1 and are shared by output, exit and closing. Peers emit them from different
/// tasks, so they arrive out of order.
#[derive(Debug, Default)]
pub(crate) struct Sequencer {
    last: u64,
    early: BTreeMap<u64, ProcessEvent>,
    early_bytes: usize,
    exit_seen: bool,
    closed_seen: bool,
    /// An old server's `closed` has no number: it is the last event.
    closes_after: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    More,
    Complete,
    /// The peer has dropped output that was not received.
    Lost {
        from: u64,
        to: u64,
    },
}

impl Sequencer {
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn has_hole(&self) -> bool {
        !self.early.is_empty()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed_seen
    }

    /// Accepts an event and delivers what is in order. Returns `false` if too much is out of order.
    pub(crate) fn accept(
        &mut self,
        seq: Option<u64>,
        event: ProcessEvent,
        deliver: &mut impl FnMut(ProcessEvent),
    ) -> bool {
        match seq {
            Some(seq) if seq <= self.last => {}
            Some(seq) => {
                let bytes = event.bytes();
                if let Entry::Vacant(place) = self.early.entry(seq) {
                    place.insert(event);
                    self.early_bytes += bytes;
                }
            }
            None => {
                let last = self.early.keys().next_back().copied();
                self.closes_after = Some(last.unwrap_or(0).max(self.last));
            }
        }
        self.drain(deliver);
        self.early.len() <= EARLY_LIMIT && self.early_bytes <= EARLY_BYTES
    }

    /// Accepts the answer to a read after [`last`](Self::last).
    pub(crate) fn recovered(
        &mut self,
        read: ReadResult,
        deliver: &mut impl FnMut(ProcessEvent),
    ) -> Recovery {
        let (before, more) = (self.last, !read.chunks.is_empty());
        for chunk in read.chunks {
            let event = ProcessEvent::Output(chunk.stream, chunk.chunk.0);
            self.accept(Some(chunk.seq), event, deliver);
        }
        if self.last > before {
            return Recovery::More;
        }
        // No chunk is the next one: a missing number is an event that a read reports as state.
        while self.last + 1 < read.next_seq {
            let is_exit = |event: &ProcessEvent| matches!(event, ProcessEvent::Exited(_));
            let exit_is_early = || self.early.values().any(is_exit);
            let exit_missing = read.exited && !self.exit_seen && !exit_is_early();
            let event = if exit_missing {
                ProcessEvent::Exited(read.exit_code)
            } else if read.closed && !self.closed_seen && self.last + 2 == read.next_seq {
                ProcessEvent::Closed
            } else {
                let to = self.early.keys().next().copied().unwrap_or(read.next_seq) - 1;
                return Recovery::Lost {
                    from: self.last + 1,
                    to,
                };
            };
            self.accept(Some(self.last + 1), event, deliver);
        }
        match more {
            true => Recovery::More,
            false => Recovery::Complete,
        }
    }

    fn drain(&mut self, deliver: &mut impl FnMut(ProcessEvent)) {
        while let Some(event) = self.early.remove(&(self.last + 1)) {
            self.early_bytes -= event.bytes();
            self.last += 1;
            match event {
                ProcessEvent::Exited(_) => self.exit_seen = true,
                ProcessEvent::Closed => self.closed_seen = true,
                ProcessEvent::Output(..) | ProcessEvent::Gone(_) => {}
            }
            deliver(event);
        }
        let closes = self.closes_after.is_some_and(|last| last <= self.last);
        if closes && !self.closed_seen {
            self.closed_seen = true;
            deliver(ProcessEvent::Closed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Chunk;
    use crate::protocol::process::{ReadChunk, Stream};
    use bytes::Bytes;

    fn output(text: &str) -> ProcessEvent {
        ProcessEvent::Output(Stream::Stdout, Bytes::copy_from_slice(text.as_bytes()))
    }

    fn chunk(seq: u64, text: &str) -> ReadChunk {
        ReadChunk {
            seq,
            stream: Stream::Stdout,
            chunk: Chunk(Bytes::copy_from_slice(text.as_bytes())),
        }
    }

    #[test]
    fn any_order_and_repetition_gives_one_order() {
        let events = [
            (1, output("a")),
            (2, output("b")),
            (3, ProcessEvent::Exited(Some(0))),
            (4, output("c")),
            (5, ProcessEvent::Closed),
        ];
        // Every rotation, each event twice.
        for turn in 0..events.len() {
            let mut sequencer = Sequencer::default();
            let mut seen = Vec::new();
            for step in 0..events.len() * 2 {
                let (seq, event) = &events[(turn + step) % events.len()];
                assert!(sequencer.accept(Some(*seq), event.clone(), &mut |e| seen.push(e)));
            }
            let expected: Vec<_> = events.iter().map(|(_, event)| event.clone()).collect();
            assert_eq!(seen, expected);
            assert!(sequencer.is_closed() && !sequencer.has_hole());
        }
    }

    #[test]
    fn a_closing_without_a_number_is_the_last() {
        let mut sequencer = Sequencer::default();
        let mut seen = Vec::new();
        sequencer.accept(Some(2), output("b"), &mut |e| seen.push(e));
        sequencer.accept(None, ProcessEvent::Closed, &mut |e| seen.push(e));
        assert!(seen.is_empty());
        sequencer.accept(Some(1), output("a"), &mut |e| seen.push(e));
        assert_eq!(seen, [output("a"), output("b"), ProcessEvent::Closed]);
    }

    #[test]
    fn a_read_explains_the_exit_and_the_closing_and_nothing_else() {
        let mut sequencer = Sequencer::default();
        let mut seen = Vec::new();
        let mut deliver = |e| seen.push(e);
        let first = ReadResult {
            chunks: vec![chunk(1, "a"), chunk(3, "b")],
            next_seq: 4,
            ..ReadResult::default()
        };
        assert_eq!(sequencer.recovered(first, &mut deliver), Recovery::More);
        let end = ReadResult {
            next_seq: 5,
            exited: true,
            exit_code: Some(3),
            closed: true,
            ..ReadResult::default()
        };
        assert_eq!(sequencer.recovered(end, &mut deliver), Recovery::Complete);
        assert_eq!(
            seen,
            [
                output("a"),
                ProcessEvent::Exited(Some(3)),
                output("b"),
                ProcessEvent::Closed
            ]
        );
    }

    #[test]
    fn output_that_the_peer_has_dropped_is_not_passed_over() {
        let mut sequencer = Sequencer::default();
        let read = ReadResult {
            chunks: vec![chunk(7, "g")],
            next_seq: 8,
            ..ReadResult::default()
        };
        // However often it is asked for, there is no more.
        let lost = Recovery::Lost { from: 1, to: 6 };
        assert_eq!(sequencer.recovered(read, &mut |_| {}), lost);
    }
}
