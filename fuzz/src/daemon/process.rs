//! The queues that the daemon keeps for a process: its output, and its input.

use bytes::Bytes;

use super::super::event::Event;
use super::super::log::{Keep, Log};
use super::super::quota::Grant;
use super::super::stdin::{StdinQueue, Verdict};
use super::choices::Choices;
use super::sequence::{ProcessEvent, Sequencer};
use crate::protocol::process::{Stream, WriteParams, WriteStatus};
use crate::protocol::{Chunk, RequestId};

/// Output through the daemon's log, over links that are lost at any time, into the
/// client's order: every byte arrives once, in order, and the window holds.
pub fn output(bytes: &[u8]) {
    const WINDOW: usize = 1000;
    let mut choices = Choices(bytes);
    let mut log = Log::new(Keep::Acknowledged, WINDOW, Grant::default());
    let mut sequencer = Sequencer::default();
    let (mut produced, mut received, mut consumed) = (0_u64, 0_u64, 0_u64);
    let mut generation = 1;
    log.reattached(generation);
    while choices.more() {
        match choices.byte() % 6 {
            0 => {
                let size = usize::from(choices.byte()).min(log.room(Stream::Stdout));
                let piece: Vec<u8> = (0..size as u64).map(|n| (produced + n) as u8).collect();
                produced += piece.len() as u64;
                if !piece.is_empty() {
                    log.push(Event::Output(Stream::Stdout, piece.into()));
                }
            }
            1 | 2 => {
                if let Some((seq, Event::Output(_, chunk))) = log.send(generation) {
                    let lost = choices.byte() % 8 == 0;
                    if !lost {
                        take(&mut sequencer, seq, chunk, &mut received);
                    } else {
                        generation += 1;
                        log.acknowledge(sequencer.last(), consumed, 0);
                        log.reattached(generation);
                    }
                }
            }
            3 => {
                consumed = received.min(consumed.saturating_add(choices.number()));
                log.acknowledge(sequencer.last(), consumed, 0);
            }
            // What no client has.
            4 => log.acknowledge(choices.number(), 0, choices.number()),
            _ => {
                let read = log.read(choices.number(), usize::from(choices.byte()));
                assert!(read.chunks.iter().all(|chunk| chunk.seq < read.next_seq));
            }
        }
        assert!(produced - consumed <= WINDOW as u64, "the window holds");
    }
}

fn take(sequencer: &mut Sequencer, seq: u64, chunk: Bytes, received: &mut u64) {
    let event = ProcessEvent::Output(Stream::Stdout, chunk);
    sequencer.accept(Some(seq), event, &mut |event| {
        if let ProcessEvent::Output(_, bytes) = event {
            for byte in bytes {
                assert_eq!(byte, *received as u8, "in order, once");
                *received += 1;
            }
        }
    });
}

const LIMIT: usize = 1000;

/// Returns whether the write was taken, now or for later.
fn write(queue: &mut StdinQueue, number: u64, size: usize) -> bool {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(8 + size, 0);
    let params = WriteParams {
        process_id: "p".to_owned(),
        chunk: Chunk(bytes.into()),
        write_id: Some(number.to_string()),
    };
    let verdict = queue.write(RequestId::Number(0), params, 3 * LIMIT);
    matches!(
        verdict,
        Verdict::Later | Verdict::Answer(WriteStatus::Accepted)
    )
}

/// Writes that are repeated and refused: what was queued leaves once, in order.
pub fn stdin(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let mut queue = StdinQueue::new(Grant::default());
    let mut next = 0_u64;
    let mut last_out = None;
    let mut under_way: Vec<u64> = Vec::new();
    let mut pop = |queue: &mut StdinQueue| {
        if let Some(piece) = queue.next() {
            let number = u64::from_be_bytes(piece[..8].try_into().expect("a number"));
            queue.written();
            assert!(last_out < Some(number), "{number} after {last_out:?}");
            last_out = Some(number);
            return true;
        }
        false
    };
    while choices.more() {
        match choices.byte() % 5 {
            0 | 1 => {
                if write(&mut queue, next, usize::from(choices.byte())) {
                    under_way.push(next);
                }
                next += 1;
            }
            2 => {
                // Only what is under way is said again.
                let again = under_way.get(usize::from(choices.byte()) % 64).copied();
                if let Some(number) = again.filter(|number| number + 32 > next) {
                    write(&mut queue, number, 8);
                }
            }
            3 => drop(pop(&mut queue)),
            _ if choices.byte() == 0 => queue.close(),
            _ => {}
        }
    }
    while pop(&mut queue) {}
}
