//! One output stream of a process: from its pipe to the log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_lifecycle_core::launch::BoxRead;
use tokio::io::AsyncReadExt;

use super::budget::Grant;
use super::event::Event;
use super::process::Process;
use crate::protocol::process::Stream;

/// How much is read from a pipe at once: a message, and when more comes all that
/// an enlarged pipe holds.
const READ: usize = 4 * 1024;
const READ_MOST: usize = 256 * 1024;

/// The most of it that goes into one frame: on a slow link nothing else moves
/// while a frame does.
const MOST_AT_ONCE: usize = 32 * 1024;

/// After so many smaller reads in a row the larger buffer is given back, and when
/// nothing comes for so long.
const PATIENCE: u32 = 256;
const IDLE: Duration = Duration::from_millis(100);

/// A pipe's output to the log, as far as there is room.
pub(super) async fn pump(process: Arc<Process>, mut pipe: BoxRead, stream: Stream) {
    let mut buffer = Buffer::of(&process);
    loop {
        let most = match room_now(&process, stream) {
            (0, _) => match tokio::time::timeout(IDLE, room(&process, stream)).await {
                Ok(most) => most,
                Err(_) => {
                    buffer.shrink();
                    room(&process, stream).await
                }
            },
            (most, _) => most,
        };
        let most = most.min(buffer.bytes.len());
        let is_large = buffer.is_large();
        let arrives = pipe.read(&mut buffer.bytes[..most]);
        let arrived = match is_large {
            false => arrives.await,
            true => match tokio::time::timeout(IDLE, arrives).await {
                Ok(arrived) => arrived,
                Err(_) => {
                    buffer.shrink();
                    continue;
                }
            },
        };
        let read = match arrived {
            Ok(0) | Err(_) => break,
            Ok(read) => read,
        };
        let mut bytes = Bytes::copy_from_slice(&buffer.bytes[..read]);
        while bytes.len() > MOST_AT_ONCE {
            let piece = bytes.split_to(MOST_AT_ONCE);
            process.push(Event::Output(stream, piece));
        }
        process.push(Event::Output(stream, bytes));
        buffer.adapt(read);
    }
    process.part_done();
}

/// Where a pipe is read to: larger while much comes, and its client has the room.
struct Buffer {
    bytes: Vec<u8>,
    grant: Grant,
    small_reads: u32,
}

impl Buffer {
    fn of(process: &Process) -> Self {
        let mut grant = Grant::of(process.portion());
        grant.set(READ);
        Self {
            bytes: vec![0; READ],
            grant,
            small_reads: 0,
        }
    }

    fn is_large(&self) -> bool {
        self.bytes.len() > READ
    }

    fn shrink(&mut self) {
        if self.is_large() {
            self.bytes = vec![0; READ];
            self.grant.set(READ);
        }
    }

    /// So much was read into it.
    fn adapt(&mut self, read: usize) {
        let size = self.bytes.len();
        self.small_reads = match read < size / 8 {
            true => self.small_reads.saturating_add(1),
            false => 0,
        };
        let larger = (size * 8).min(READ_MOST);
        if read == size && read < larger && self.grant.try_set(larger) {
            self.bytes.resize(larger, 0);
        } else if self.small_reads > PATIENCE || self.grant.is_short() {
            self.shrink();
        }
    }
}

/// How much output there is room for now, and whether memory is what is short.
fn room_now(process: &Process, stream: Stream) -> (usize, bool) {
    let (window, held) = {
        let log = process.log.lock();
        (log.room(stream), !log.is_drained())
    };
    // A server of which nothing waits goes on, if slowly, whatever others do.
    let room = match process.portion().room() {
        0..READ if held => 0,
        room => room.max(READ),
    };
    // After its end nobody may be there to take it, and a pipe that
    // is not read keeps whoever inherited it from leaving.
    (window.min(room), room < window)
}

/// Waits until there is room for output; how much.
async fn room(process: &Process, stream: Stream) -> usize {
    let mut is_short = false;
    loop {
        let mut room = std::pin::pin!(process.room.notified());
        let mut freed = std::pin::pin!(process.portion().freed());
        room.as_mut().enable();
        freed.as_mut().enable();
        if is_short {
            process.make_room(READ);
            process.portion().want(READ);
        }
        let (most, short) = room_now(process, stream);
        if most > 0 {
            return most;
        }
        if short && !std::mem::replace(&mut is_short, true) {
            continue;
        }
        tokio::select! {
            () = room => {}
            () = freed => {}
        }
    }
}
