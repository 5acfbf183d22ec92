//! Copies one output stream of a process from its pipe to the log.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::FutureExt;
use mcp_lifecycle_core::launch::BoxRead;
use tokio::io::AsyncReadExt;

use super::event::Event;
use super::quota::Grant;
use super::session::Process;
use crate::protocol::process::Stream;

const READ: usize = 4 * 1024;
const READ_MOST: usize = 64 * 1024;

/// Maximum part in one frame, which blocks a slow link.
const MOST_AT_ONCE: usize = 32 * 1024;

pub(super) async fn pump(process: Arc<Process>, mut pipe: BoxRead, stream: Stream) {
    let mut small = vec![0; READ];
    let mut grant = Grant::of(&process.portion);
    grant.set(READ);
    'reading: loop {
        let most = room(&process, stream).await.min(READ);
        let mut read = match pipe.read(&mut small[..most]).await {
            Ok(0) | Err(_) => break,
            Ok(read) => read,
        };
        process.push(Event::Output(
            stream,
            Bytes::copy_from_slice(&small[..read]),
        ));
        // There may be more. A large buffer waits for nothing, so an idle process has none.
        while read == READ || read > MOST_AT_ONCE {
            let most = room_now(&process, stream).min(READ_MOST);
            if most <= READ {
                break;
            }
            let mut large = BytesMut::with_capacity(most).limit(most);
            read = match pipe.read_buf(&mut large).now_or_never() {
                Some(Ok(0) | Err(_)) => break 'reading,
                Some(Ok(read)) => read,
                None => break,
            };
            let mut bytes = large.into_inner().freeze();
            // The log counts what arrived, not what was made ready for it.
            if read < most / 2 {
                bytes = Bytes::copy_from_slice(&bytes);
            }
            while !bytes.is_empty() {
                let piece = bytes.split_to(bytes.len().min(MOST_AT_ONCE));
                process.push(Event::Output(stream, piece));
            }
        }
    }
    process.part_done();
}

fn room_now(process: &Process, stream: Stream) -> usize {
    let (window, held) = {
        let log = process.log.lock();
        (log.room(stream), !log.is_drained())
    };
    // A server with nothing queued always proceeds, if slowly.
    let room = match process.portion.room() {
        0..READ if held => 0,
        room => room.max(READ),
    };
    // Ignores the quota after its end: an unread pipe would keep descendants from exiting.
    window.min(room)
}

async fn room(process: &Process, stream: Stream) -> usize {
    let now = room_now(process, stream);
    if now > 0 {
        return now;
    }
    // Output that is sent later frees room by itself.
    process.make_room(READ);
    loop {
        let mut room = std::pin::pin!(process.room.notified());
        let mut freed = std::pin::pin!(process.portion.freed());
        room.as_mut().enable();
        freed.as_mut().enable();
        let most = room_now(process, stream);
        if most > 0 {
            return most;
        }
        tokio::select! {
            () = room => {}
            () = freed => {}
        }
    }
}
