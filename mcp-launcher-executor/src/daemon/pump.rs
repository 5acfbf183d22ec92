//! One output stream of a process: from its pipe to the log.

use std::sync::Arc;

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

/// After so many smaller reads in a row the larger buffer is given back.
const PATIENCE: u32 = 256;

/// A pipe's output to the log, as far as there is room.
pub(super) async fn pump(process: Arc<Process>, mut pipe: BoxRead, stream: Stream) {
    let mut buffer = vec![0; READ];
    let mut grant = Grant::of(&process.portion);
    grant.set(READ);
    let mut small_reads = 0_u32;
    loop {
        let room = room(&process, stream).await.min(buffer.len());
        let read = match pipe.read(&mut buffer[..room]).await {
            Ok(0) | Err(_) => break,
            Ok(read) => read,
        };
        let mut bytes = Bytes::copy_from_slice(&buffer[..read]);
        while bytes.len() > MOST_AT_ONCE {
            let piece = bytes.split_to(MOST_AT_ONCE);
            process.push(Event::Output(stream, piece));
        }
        process.push(Event::Output(stream, bytes));
        small_reads = match read < buffer.len() / 8 {
            true => small_reads.saturating_add(1),
            false => 0,
        };
        let larger = (buffer.len() * 8).min(READ_MOST);
        if read == buffer.len() && read < larger && grant.try_set(larger) {
            buffer.resize(larger, 0);
        } else if small_reads > PATIENCE && buffer.len() > READ {
            buffer = vec![0; READ];
            grant.set(READ);
        }
    }
    process.part_done();
}

/// Waits until there is room for output; how much.
async fn room(process: &Process, stream: Stream) -> usize {
    let mut is_short = false;
    loop {
        let mut room = std::pin::pin!(process.room.notified());
        let mut freed = std::pin::pin!(process.portion.freed());
        room.as_mut().enable();
        freed.as_mut().enable();
        if is_short {
            process.make_room(READ);
            process.portion.want();
        }
        let (window, held) = {
            let log = process.log();
            (log.room(stream), !log.is_drained())
        };
        // A server of which nothing waits goes on, if slowly, whatever others do.
        let least = if held { 0 } else { READ };
        let most = window.min(process.portion.room().max(least));
        // After its end nobody may be there to take it, and a pipe that
        // is not read keeps whoever inherited it from leaving.
        if most > 0 {
            return most;
        }
        if window > 0 && !std::mem::replace(&mut is_short, true) {
            continue;
        }
        tokio::select! {
            () = room => {}
            () = freed => {}
        }
    }
}
