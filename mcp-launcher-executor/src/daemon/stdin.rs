//! The queue of one process's standard input. Pure.

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

/// Writes of one client that were refused and that others wait behind, at most: ours
/// has a few under way.
const MOST_REFUSED: usize = 64;

/// A write that a process takes whatever its client's other ones hold, when none
/// of its own waits.
const LEAST: usize = 4 * 1024;

/// The bytes of memory that a remembered id takes.
const REMEMBERED_EACH: usize = 40;

/// The bytes of memory that a write takes, even an empty one.
fn cost(bytes: &Bytes) -> usize {
    const EACH: usize = 192;
    EACH + bytes.len()
}

/// The verdict on a write.
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
    /// The cost of the piece that is on its way into the pipe.
    leaving: usize,
    held: VecDeque<(RequestId, WriteParams)>,
    held_bytes: usize,
    /// Hashes of ids, under a secret of this queue's: they may be long.
    seen: HashSet<u64>,
    order: VecDeque<u64>,
    secret: RandomState,
    /// Hashes of ids of writes that were refused: each is to be repeated before
    /// what comes behind it is accepted. `None` for a client that does not repeat.
    refused: Option<VecDeque<u64>>,
    /// The part of its client's portion that all of this takes.
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

    /// For a client that has several writes under way, and repeats what is refused
    /// as a limit.
    pub(super) fn in_order(mut self) -> Self {
        self.refused = Some(VecDeque::new());
        self
    }

    /// Whether something was refused and not repeated yet.
    pub(super) fn is_behind(&self) -> bool {
        self.refused.as_ref().is_some_and(|all| !all.is_empty())
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
        let write_id = params.write_id.as_deref().filter(|id| !id.is_empty());
        let name = write_id.map(|id| self.secret.hash_one(id));
        if let Some(name) = &name {
            if self.seen.contains(name) {
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
        let fits = at_once || self.held_bytes + more <= held_limit;
        if !self.is_next(name) || !fits || !self.has_room(more) {
            self.refuse(name);
            return Verdict::Full;
        }
        if let Some(refused) = &mut self.refused {
            refused.pop_front();
        }
        if at_once {
            self.accept(params);
            return Verdict::Answer(WriteStatus::Accepted);
        }
        self.held_bytes += more;
        self.held.push_back((id, params));
        Verdict::Later
    }

    /// Whether nothing that was refused has to come before this write.
    fn is_next(&self, name: Option<u64>) -> bool {
        let first = self.refused.as_ref().and_then(VecDeque::front);
        first.is_none() || first == name.as_ref()
    }

    fn refuse(&mut self, name: Option<u64>) {
        if let (Some(refused), Some(name)) = (&mut self.refused, name)
            && refused.len() < MOST_REFUSED
            && !refused.contains(&name)
        {
            refused.push_back(name);
        }
    }

    /// Takes so many bytes more of its client's portion, if need be of what old
    /// names have of it.
    fn has_room(&mut self, more: usize) -> bool {
        if self.grant.try_set(self.takes() + more) {
            return true;
        }
        self.forget_names(REMEMBERED_ALWAYS);
        if self.bytes + self.leaving + self.held_bytes == 0 && more <= LEAST {
            self.grant.set(self.takes() + more);
            return true;
        }
        self.grant.try_set(self.takes() + more)
    }

    fn forget_names(&mut self, most: usize) {
        while self.order.len() > most
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
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
        self.refused = None;
        self.grant.set(self.takes());
        self.held.drain(..).map(|(id, _)| id).collect()
    }

    fn accept(&mut self, params: WriteParams) {
        if let Some(write_id) = params.write_id.filter(|id| !id.is_empty()) {
            let most = match self.grant.is_short() {
                true => REMEMBERED_ALWAYS,
                false => REMEMBERED,
            };
            self.forget_names(most - 1);
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
        let share = super::super::budget::Portion::of(&budget, None);
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
    fn names_make_way_for_input() {
        let budget = super::super::budget::Budget::new(0);
        let share = super::super::budget::Portion::of(&budget, None);
        let mut queue = StdinQueue::new(Grant::of(&share));
        let own = share.room();
        for number in 0..10_000 {
            write(&mut queue, number, &number.to_string(), 0);
            queue.pop();
        }
        queue.pop();
        let params = WriteParams {
            process_id: "p".to_owned(),
            chunk: Chunk(vec![0; own * 9 / 10].into()),
            write_id: Some("large".to_owned()),
        };
        let verdict = queue.write(RequestId::Number(1), params, own * 9, own * 9);
        assert_eq!(verdict, Verdict::Answer(WriteStatus::Accepted));
        assert!(queue.order.len() >= REMEMBERED_ALWAYS);
    }

    #[test]
    fn a_process_takes_a_little_whatever_the_others_of_its_client_have() {
        let budget = super::super::budget::Budget::new(0);
        let share = super::super::budget::Portion::of(&budget, None);
        let mut others = Grant::of(&share);
        others.set(share.room());
        let mut queue = StdinQueue::new(Grant::of(&share));
        let accepted = Verdict::Answer(WriteStatus::Accepted);
        assert_eq!(write(&mut queue, 1, "a", 100), accepted);
        assert_eq!(write(&mut queue, 2, "b", 1), Verdict::Full);
        queue.pop();
        assert_eq!(
            write(&mut queue, 3, "b", 1),
            Verdict::Full,
            "not in the pipe"
        );
        queue.pop();
        assert_eq!(write(&mut queue, 4, "b", 1), accepted);
    }

    #[test]
    fn what_comes_behind_a_refused_write_waits_for_its_repetition() {
        let accepted = Verdict::Answer(WriteStatus::Accepted);
        let mut queue = StdinQueue::default().in_order();
        write(&mut queue, 1, "a", 12);
        assert_eq!(write(&mut queue, 2, "b", 12), Verdict::Later);
        // There is no room for the third, and there would be for those behind it.
        assert_eq!(write(&mut queue, 3, "c", 12), Verdict::Full);
        queue.pop();
        queue.admit(202);
        queue.pop();
        for id in ["d", "e", "d"] {
            assert_eq!(write(&mut queue, 4, id, 1), Verdict::Full, "{id}");
        }
        assert!(queue.is_behind());
        assert_eq!(write(&mut queue, 5, "c", 1), accepted);
        queue.pop();
        assert_eq!(write(&mut queue, 6, "e", 1), Verdict::Full, "before d");
        assert_eq!(write(&mut queue, 7, "d", 1), accepted);
        queue.pop();
        assert_eq!(write(&mut queue, 8, "e", 1), accepted);
        assert!(!queue.is_behind());
        // Who does not repeat is not waited for.
        let mut queue = StdinQueue::default();
        write(&mut queue, 1, "a", 12);
        write(&mut queue, 2, "b", 12);
        assert_eq!(write(&mut queue, 3, "c", 12), Verdict::Full);
        assert!(!queue.is_behind());
    }

    #[test]
    fn names_without_number_are_forgotten() {
        let budget = super::super::budget::Budget::new(0);
        let share = super::super::budget::Portion::of(&budget, None);
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
