use std::io;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::io::StreamReader;

use crate::launch::BoxRead;

/// Returns the byte stream of these messages, which ends when the sender is dropped.
pub fn output(mut messages: mpsc::Receiver<Bytes>) -> BoxRead {
    let messages = futures_util::stream::poll_fn(move |cx| {
        messages.poll_recv(cx).map(|next| next.map(io::Result::Ok))
    });
    Box::new(StreamReader::new(messages))
}
