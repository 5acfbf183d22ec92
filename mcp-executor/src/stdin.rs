//! The input of one process: its queue, pure, and the pipe behind it.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use mcp_lifecycle_core::terminate::ServerStdin;
use tokio::io::AsyncWrite;

use super::quota::Grant;
use crate::protocol::RequestId;
use crate::protocol::process::{WriteParams, WriteStatus};

/// Number of remembered IDs of written writes, and of refused ones that others wait for. A client
/// repeats those that were in flight, which are a few.
const REMEMBERED: usize = 64;

/// Size of a write that is queued whatever the quota, if the process has none queued.
const LEAST: usize = 4 * 1024;

fn cost(bytes: &Bytes) -> usize {
    const EACH: usize = 192;
    EACH + bytes.len()
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Answer(WriteStatus),
    /// It is queued: answer when it is written, or cannot be.
    Later,
    Full,
}

#[derive(Debug, Default)]
pub(super) struct StdinQueue {
    queue: VecDeque<(RequestId, WriteParams)>,
    bytes: usize,
    /// Hashes of the IDs of written writes, which may be long, with a secret key.
    seen: VecDeque<u64>,
    secret: RandomState,
    /// Hashes of refused writes' IDs: each must be repeated before later writes are accepted.
    /// `None` for a client that does not repeat.
    refused: Option<VecDeque<u64>>,
    grant: Grant,
    closing: bool,
    closed: bool,
}

impl StdinQueue {
    pub(super) fn new(grant: Grant) -> Self {
        Self {
            grant,
            ..Self::default()
        }
    }

    /// Sets the mode for a client that has several writes in flight and repeats refused ones.
    pub(super) fn in_order(mut self) -> Self {
        self.refused = Some(VecDeque::new());
        self
    }

    /// Returns whether a refused write was not repeated yet.
    pub(super) fn is_behind(&self) -> bool {
        self.refused.as_ref().is_some_and(|all| !all.is_empty())
    }

    /// Queues a write, unless the queue would exceed this limit of bytes.
    pub(super) fn write(&mut self, id: RequestId, params: WriteParams, limit: usize) -> Verdict {
        let write_id = params.write_id.as_deref().filter(|id| !id.is_empty());
        let name = write_id.map(|id| self.secret.hash_one(id));
        if let Some(name) = &name {
            if self.seen.contains(name) {
                return Verdict::Answer(WriteStatus::Accepted);
            }
            let same =
                |queued: &&mut (RequestId, WriteParams)| queued.1.write_id == params.write_id;
            if let Some(queued) = self.queue.iter_mut().find(same) {
                // Repeated over another connection, which gets the answer.
                queued.0 = id;
                return Verdict::Later;
            }
        }
        if self.closed || self.closing {
            return Verdict::Answer(WriteStatus::StdinClosed);
        }
        let more = cost(&params.chunk.0);
        let fits = self.queue.is_empty() || self.bytes + more <= limit;
        let first = self.refused.as_ref().and_then(VecDeque::front);
        let is_next = first.is_none() || first == name.as_ref();
        if !is_next || !fits || !self.has_room(more) {
            self.refuse(name);
            return Verdict::Full;
        }
        if let Some(refused) = &mut self.refused {
            refused.pop_front();
        }
        self.bytes += more;
        self.queue.push_back((id, params));
        Verdict::Later
    }

    fn refuse(&mut self, name: Option<u64>) {
        if let (Some(refused), Some(name)) = (&mut self.refused, name)
            && refused.len() < REMEMBERED
            && !refused.contains(&name)
        {
            refused.push_back(name);
        }
    }

    fn has_room(&mut self, more: usize) -> bool {
        if self.queue.is_empty() && more <= LEAST {
            self.grant.set(more);
            return true;
        }
        self.grant.try_set(self.bytes + more)
    }

    pub(super) fn next(&self) -> Option<&Bytes> {
        self.queue.front().map(|(_, params)| &params.chunk.0)
    }

    pub(super) fn written(&mut self) -> Option<RequestId> {
        let (id, params) = self.queue.pop_front()?;
        self.bytes -= cost(&params.chunk.0);
        if let Some(write_id) = params.write_id.filter(|id| !id.is_empty()) {
            self.seen.push_back(self.secret.hash_one(write_id));
            if self.seen.len() > REMEMBERED {
                self.seen.pop_front();
            }
        }
        self.grant.set(self.bytes);
        Some(id)
    }

    /// Refuses further input; the queue is still written.
    pub(super) fn close(&mut self) {
        self.closing = true;
    }

    pub(super) fn at_end(&self) -> bool {
        self.closing && self.queue.is_empty()
    }

    /// Notes that the pipe is closed. Returns the requests of writes that will never be written.
    pub(super) fn broken(&mut self) -> Vec<RequestId> {
        self.closed = true;
        self.bytes = 0;
        self.refused = None;
        self.grant.set(0);
        self.queue.drain(..).map(|(id, _)| id).collect()
    }
}

/// A queue, and the pipe that it is written to: by the task that got the write, and by a task of
/// its own where the pipe is full.
pub(super) struct Input {
    pub(super) queue: StdinQueue,
    /// `None` once it is closed.
    pipe: Option<ServerStdin>,
    in_pipe: usize,
    waits: Waker,
}

pub(super) type Answers = Vec<(RequestId, WriteStatus)>;

impl Input {
    pub(super) fn new(queue: StdinQueue, pipe: ServerStdin) -> Self {
        Self {
            queue,
            pipe: Some(pipe),
            in_pipe: 0,
            waits: Waker::noop().clone(),
        }
    }

    /// Writes as much as the pipe takes; its own task does the rest.
    pub(super) fn write_now(&mut self) -> Answers {
        let waits = self.waits.clone();
        let mut answers = Answers::new();
        let _ = self.poll_write(&mut Context::from_waker(&waits), &mut answers);
        answers
    }

    /// Does the same, for the task that waits. Ready once the pipe is closed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, answers: &mut Answers) -> Poll<()> {
        self.waits.clone_from(cx.waker());
        self.poll_write(cx, answers)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, answers: &mut Answers) -> Poll<()> {
        while let Some(pipe) = &mut self.pipe {
            let mut pipe = Pin::new(pipe);
            let Some(bytes) = self.queue.next() else {
                if !self.queue.at_end() {
                    return Poll::Pending;
                }
                // Explicitly: the handle's end of it remains.
                let _ = ready!(pipe.poll_shutdown(cx));
                self.close(answers);
                break;
            };
            let rest = &bytes[self.in_pipe..];
            let outcome = match rest.is_empty() {
                true => ready!(pipe.as_mut().poll_flush(cx)).map(|()| None),
                false => ready!(pipe.as_mut().poll_write(cx, rest)).map(Some),
            };
            match outcome {
                Ok(None) => {
                    self.in_pipe = 0;
                    let id = self.queue.written();
                    answers.extend(id.map(|id| (id, WriteStatus::Accepted)));
                }
                Ok(Some(0)) | Err(_) => self.close(answers),
                Ok(Some(more)) => self.in_pipe += more,
            }
        }
        Poll::Ready(())
    }

    fn close(&mut self, answers: &mut Answers) {
        self.pipe = None;
        let never = self.queue.broken().into_iter();
        answers.extend(never.map(|id| (id, WriteStatus::StdinClosed)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Chunk;

    const ACCEPTED: Verdict = Verdict::Answer(WriteStatus::Accepted);

    fn params(write_id: &str, size: usize) -> WriteParams {
        WriteParams {
            process_id: "p".to_owned(),
            chunk: Chunk(vec![0; size].into()),
            write_id: Some(write_id.to_owned()),
        }
    }

    /// There is room for two small writes.
    fn write(queue: &mut StdinQueue, id: i64, write_id: &str, size: usize) -> Verdict {
        queue.write(RequestId::Number(id), params(write_id, size), 420)
    }

    #[test]
    fn a_repeated_write_is_written_once() {
        let mut queue = StdinQueue::default();
        assert_eq!(write(&mut queue, 1, "a", 4), Verdict::Later);
        assert_eq!(write(&mut queue, 2, "a", 4), Verdict::Later);
        assert_eq!(queue.next().map(Bytes::len), Some(4));
        assert_eq!(queue.written(), Some(RequestId::Number(2)));
        assert_eq!(write(&mut queue, 3, "a", 4), ACCEPTED);
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn the_end_follows_the_queue() {
        let mut queue = StdinQueue::default();
        write(&mut queue, 1, "a", 12);
        queue.close();
        assert!(!queue.at_end());
        queue.written();
        assert!(queue.at_end());
        let closed = Verdict::Answer(WriteStatus::StdinClosed);
        assert_eq!(write(&mut queue, 4, "d", 1), closed);
    }

    #[test]
    fn writes_that_are_not_in_the_pipe_are_not_accepted() {
        let mut queue = StdinQueue::default();
        write(&mut queue, 1, "a", 12);
        write(&mut queue, 2, "b", 12);
        queue.written();
        assert_eq!(queue.broken(), [RequestId::Number(2)]);
        assert_eq!(write(&mut queue, 3, "a", 12), ACCEPTED);
        let closed = Verdict::Answer(WriteStatus::StdinClosed);
        assert_eq!(write(&mut queue, 4, "b", 12), closed);
    }

    #[test]
    fn input_takes_its_client_s_portion_and_gives_it_back() {
        let share = super::super::quota::without_memory();
        let mut queue = StdinQueue::new(Grant::of(&share));
        let own = share.room();
        let mut write = |id, size| {
            let mut params = params("", size);
            params.write_id = None;
            queue.write(RequestId::Number(id), params, own * 9)
        };
        assert_eq!(write(1, own / 2), Verdict::Later);
        assert_eq!(write(2, own / 2), Verdict::Full);
        assert!(share.room() < own, "it is not in the pipe yet");
        queue.written();
        assert_eq!(share.room(), own);
    }

    #[test]
    fn a_process_takes_a_little_whatever_the_others_of_its_client_have() {
        let share = super::super::quota::without_memory();
        let mut others = Grant::of(&share);
        others.set(share.room());
        let mut queue = StdinQueue::new(Grant::of(&share));
        assert_eq!(write(&mut queue, 1, "a", 100), Verdict::Later);
        assert_eq!(write(&mut queue, 2, "b", 1), Verdict::Full);
        queue.written();
        assert_eq!(write(&mut queue, 4, "b", 1), Verdict::Later);
    }

    #[test]
    fn what_comes_behind_a_refused_write_waits_for_its_repetition() {
        let mut queue = StdinQueue::default().in_order();
        write(&mut queue, 1, "a", 12);
        write(&mut queue, 2, "b", 12);
        // There is no room for the third, and there would be for those behind it.
        assert_eq!(write(&mut queue, 3, "c", 12), Verdict::Full);
        queue.written();
        queue.written();
        for id in ["d", "e", "d"] {
            assert_eq!(write(&mut queue, 4, id, 1), Verdict::Full, "{id}");
        }
        assert!(queue.is_behind());
        assert_eq!(write(&mut queue, 5, "c", 1), Verdict::Later);
        queue.written();
        assert_eq!(write(&mut queue, 6, "e", 1), Verdict::Full, "before d");
        assert_eq!(write(&mut queue, 7, "d", 1), Verdict::Later);
        queue.written();
        assert_eq!(write(&mut queue, 8, "e", 1), Verdict::Later);
        assert!(!queue.is_behind());
        // A client that does not repeat is not waited for.
        let mut queue = StdinQueue::default();
        write(&mut queue, 1, "a", 12);
        write(&mut queue, 2, "b", 12);
        assert_eq!(write(&mut queue, 3, "c", 12), Verdict::Full);
        assert!(!queue.is_behind());
    }
}
