//! A server's output as one of many things that a runtime has to do.

use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, ReadBuf};

use super::*;
use crate::terminate::ServerStdin;

/// Output that is always there.
struct Flood;

const LINE: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
"#;

impl AsyncRead for Flood {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        while buffer.remaining() >= LINE.len() {
            buffer.put_slice(LINE);
        }
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_server_that_floods_leaves_other_tasks_their_turn() {
    const MAX: u64 = 2048;
    let limits = TransportLimits::default();
    let (stdin, _closer) = ServerStdin::new(Box::new(tokio::io::sink()));
    let wire = Connection::new(stdin, Box::new(Flood), &limits);
    let mut transport = StdioTransport::new(wire, &limits, None);
    let received = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = Arc::clone(&received);
    let flooded = tokio::spawn(async move {
        // Over at last, also where nobody else gets a turn.
        while count.fetch_add(1, Ordering::Relaxed) < 4 * MAX {
            transport.receive().await;
        }
    });
    for _ in 0..3 {
        let before = received.load(Ordering::Relaxed);
        tokio::task::yield_now().await;
        let meanwhile = received.load(Ordering::Relaxed) - before;
        assert!(meanwhile < MAX, "{meanwhile} messages in one turn");
    }
    flooded.abort();
}
