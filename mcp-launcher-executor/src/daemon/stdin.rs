//! What waits for one process's standard input. Pure.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;

use super::budget::Grant;
use crate::protocol::RequestId;
use crate::protocol::process::{WriteParams, WriteStatus};

/// Write ids that are remembered, as many as codex does; fewer when memory is
/// short, but never fewer than a client has under way when it is cut off.
const REMEMBERED: usize = 4096;
const REMEMBERED_ALWAYS: usize = 64;

/// What a remembered id takes.
const REMEMBERED_EACH: usize = 40;

/// What a write takes, even one of nothing.
fn cost(bytes: &Bytes) -> usize {
    const EACH: usize = 192;
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
    /// What the piece takes that is on its way into the pipe.
    leaving: usize,
    held: VecDeque<(RequestId, WriteParams)>,
    held_bytes: usize,
    /// Hashes of ids, under a secret of this queue's: they may be long.
    seen: HashSet<u64>,
    order: VecDeque<u64>,
    secret: RandomState,
    /// What all of this takes of its client's portion.
    grant: Grant,
    /// End of file follows what is queued.
    closing: bool,
    /// The pipe is gone.
    closed: bool,
}

impl StdinQueue {
    pub(super) fn new(grant: Grant) -> Self {
        Self {
            grant,
            ..Self::default()
        }
    }

    fn takes(&self) -> usize {
        self.bytes + self.leaving + self.held_bytes + self.order.len() * REMEMBERED_EACH
    }

    pub(super) fn write(
        &mut self,
        id: RequestId,
        params: WriteParams,
        limit: usize,
        held_limit: usize,
    ) -> Verdict {
        let write_id = params.write_id.as_deref().unwrap_or("");
        if !write_id.is_empty() {
            if self.seen.contains(&self.secret.hash_one(write_id)) {
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
        let more = cost(&params.chunk.0);
        let at_once = self.held.is_empty() && self.bytes < limit;
        if !at_once && self.held_bytes + more > held_limit {
            return Verdict::Full;
        }
        if !self.grant.try_set(self.takes() + more) {
            return Verdict::Full;
        }
        if at_once {
            self.accept(params);
            return Verdict::Answer(WriteStatus::Accepted);
        }
        self.held_bytes += more;
        self.held.push_back((id, params));
        Verdict::Later
    }

    /// The next piece for the pipe; the one before is in there.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let next = self.accepted.pop_front();
        self.leaving = next.as_ref().map_or(0, cost);
        self.bytes -= self.leaving;
        self.grant.set(self.takes());
        next
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
        self.leaving = 0;
        self.held_bytes = 0;
        self.grant.set(self.takes());
        self.held.drain(..).map(|(id, _)| id).collect()
    }

    fn accept(&mut self, params: WriteParams) {
        if let Some(write_id) = params.write_id.filter(|id| !id.is_empty()) {
            let most = match self.grant.is_short() {
                true => REMEMBERED_ALWAYS,
                false => REMEMBERED,
            };
            while self.order.len() >= most
                && let Some(oldest) = self.order.pop_front()
            {
                self.seen.remove(&oldest);
            }
            let id = self.secret.hash_one(write_id);
            self.seen.insert(id);
            self.order.push_back(id);
        }
        self.bytes += cost(&params.chunk.0);
        self.accepted.push_back(params.chunk.0);
        self.grant.set(self.takes());
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
        queue.write(RequestId::Number(id), params, 202, 228)
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
        assert!(queue.admit(202).is_empty());
        queue.pop();
        assert_eq!(queue.admit(202), [RequestId::Number(9)]);
        queue.close();
        assert!(!queue.at_end());
        queue.pop();
        assert!(queue.at_end());
        assert_eq!(
            write(&mut queue, 4, "d", 1),
            Verdict::Answer(WriteStatus::StdinClosed)
        );
    }

    #[test]
    fn input_takes_its_client_s_portion_and_gives_it_back() {
        let budget = super::super::budget::Budget::new(0);
        let share = super::super::budget::Portion::of(&budget);
        let mut queue = StdinQueue::new(Grant::of(&share));
        let own = share.room();
        let params = |size| WriteParams {
            process_id: "p".to_owned(),
            chunk: Chunk(vec![0; size].into()),
            write_id: None,
        };
        let mut write = |size| queue.write(RequestId::Number(1), params(size), own * 9, own * 9);
        assert_eq!(write(own / 2), Verdict::Answer(WriteStatus::Accepted));
        assert_eq!(write(own / 2), Verdict::Full);
        queue.pop();
        assert!(share.room() < own, "it is not in the pipe yet");
        queue.pop();
        assert_eq!(share.room(), own);
    }

    #[test]
    fn names_without_number_are_forgotten() {
        let budget = super::super::budget::Budget::new(0);
        let share = super::super::budget::Portion::of(&budget);
        let mut queue = StdinQueue::new(Grant::of(&share));
        for number in 0..100_000 {
            write(&mut queue, number, &number.to_string(), 0);
            queue.pop();
        }
        assert!(
            queue.takes() <= REMEMBERED * REMEMBERED_EACH,
            "{}",
            queue.takes()
        );
        assert_eq!(queue.seen.len(), queue.order.len());
    }
}
