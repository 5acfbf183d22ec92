//! What waits for one process's standard input. Pure.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;

use crate::protocol::RequestId;
use crate::protocol::process::{WriteParams, WriteStatus};

/// Write ids that are remembered, as many as codex does.
const REMEMBERED: usize = 4096;

/// What a write costs, even one of nothing.
fn cost(bytes: &Bytes) -> usize {
    const EACH: usize = 64;
    EACH + bytes.len()
}

/// What to do about a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Answer now.
    Answer(WriteStatus),
    /// Answer when there is room.
    Later,
    /// Too much waits already.
    Full,
}

/// Input that is accepted, and writes that wait for room.
#[derive(Debug, Default)]
pub(super) struct StdinQueue {
    accepted: VecDeque<Bytes>,
    bytes: usize,
    held: VecDeque<(RequestId, WriteParams)>,
    held_bytes: usize,
    seen: HashSet<String>,
    order: VecDeque<String>,
    /// End of file follows what is queued.
    closing: bool,
    /// The pipe is gone.
    closed: bool,
}

impl StdinQueue {
    pub(super) fn write(
        &mut self,
        id: RequestId,
        params: WriteParams,
        limit: usize,
        held_limit: usize,
    ) -> Verdict {
        let write_id = params.write_id.as_deref().unwrap_or("");
        if !write_id.is_empty() {
            if self.seen.contains(write_id) {
                return Verdict::Answer(WriteStatus::Accepted);
            }
            let same = |held: &&mut (RequestId, WriteParams)| held.1.write_id == params.write_id;
            if let Some(held) = self.held.iter_mut().find(same) {
                // Repeated over another connection: that one gets the answer.
                held.0 = id;
                return Verdict::Later;
            }
        }
        if self.closed || self.closing {
            return Verdict::Answer(WriteStatus::StdinClosed);
        }
        if self.held.is_empty() && self.bytes < limit {
            self.accept(params);
            return Verdict::Answer(WriteStatus::Accepted);
        }
        if self.held_bytes + cost(&params.chunk.0) > held_limit {
            return Verdict::Full;
        }
        self.held_bytes += cost(&params.chunk.0);
        self.held.push_back((id, params));
        Verdict::Later
    }

    /// The next piece for the pipe.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let bytes = self.accepted.pop_front()?;
        self.bytes -= cost(&bytes);
        Some(bytes)
    }

    /// Writes for which there is room now, to be answered.
    pub(super) fn admit(&mut self, limit: usize) -> Vec<RequestId> {
        let mut admitted = Vec::new();
        while self.bytes < limit
            && let Some((id, params)) = self.held.pop_front()
        {
            self.held_bytes -= cost(&params.chunk.0);
            self.accept(params);
            admitted.push(id);
        }
        admitted
    }

    /// No more is accepted; what is queued still goes out.
    pub(super) fn close(&mut self) {
        self.closing = true;
    }

    /// Whether end of file is due.
    pub(super) fn at_end(&self) -> bool {
        self.closing && self.accepted.is_empty() && self.held.is_empty()
    }

    /// The pipe is gone; these writes will never be accepted.
    pub(super) fn broken(&mut self) -> Vec<RequestId> {
        self.closed = true;
        self.accepted.clear();
        self.bytes = 0;
        self.held_bytes = 0;
        self.held.drain(..).map(|(id, _)| id).collect()
    }

    fn accept(&mut self, params: WriteParams) {
        if let Some(write_id) = params.write_id.filter(|id| !id.is_empty()) {
            if self.order.len() == REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.seen.remove(&oldest);
            }
            self.seen.insert(write_id.clone());
            self.order.push_back(write_id);
        }
        self.bytes += cost(&params.chunk.0);
        self.accepted.push_back(params.chunk.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Chunk;

    fn write(queue: &mut StdinQueue, id: i64, write_id: &str, size: usize) -> Verdict {
        let params = WriteParams {
            process_id: "p".to_owned(),
            chunk: Chunk(vec![0; size].into()),
            write_id: Some(write_id.to_owned()),
        };
        queue.write(RequestId::Number(id), params, 74, 100)
    }

    #[test]
    fn a_repeated_write_is_accepted_once() {
        let mut queue = StdinQueue::default();
        let accepted = Verdict::Answer(WriteStatus::Accepted);
        assert_eq!(write(&mut queue, 1, "a", 4), accepted);
        assert_eq!(write(&mut queue, 2, "a", 4), accepted);
        assert_eq!(queue.pop().map(|b| b.len()), Some(4));
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn a_write_without_room_waits_and_its_repetition_takes_its_place() {
        let mut queue = StdinQueue::default();
        write(&mut queue, 1, "a", 12);
        assert_eq!(write(&mut queue, 2, "b", 12), Verdict::Later);
        assert_eq!(write(&mut queue, 9, "b", 12), Verdict::Later);
        assert_eq!(write(&mut queue, 3, "c", 12), Verdict::Full);
        assert!(queue.admit(74).is_empty());
        queue.pop();
        assert_eq!(queue.admit(74), [RequestId::Number(9)]);
        queue.close();
        assert!(!queue.at_end());
        queue.pop();
        assert!(queue.at_end());
        assert_eq!(
            write(&mut queue, 4, "d", 1),
            Verdict::Answer(WriteStatus::StdinClosed)
        );
    }
}
