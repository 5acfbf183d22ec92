//! Connects to a name that has several addresses.

use std::io;
use std::net::SocketAddr;

use futures_util::future::select_ok;
use tokio::net::{TcpStream, lookup_host};

pub(super) async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    first_of(lookup_host((host, port)).await?).await
}

/// Connects to all at once, so that one that does not answer keeps no other back. Returns the first
/// connection, or the last failure.
async fn first_of(addresses: impl IntoIterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let attempts = addresses.into_iter().map(TcpStream::connect).map(Box::pin);
    let attempts: Vec<_> = attempts.collect();
    if attempts.is_empty() {
        return Err(io::Error::other("the name has no address"));
    }
    Ok(select_ok(attempts).await?.0)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::{Duration, Instant};

    use super::*;

    /// An address at which nothing is answered: its queue of connections is full.
    async fn black_hole() -> (SocketAddr, impl Sized) {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut held = Vec::new();
        let moment = Duration::from_millis(200);
        while let Ok(connected) = tokio::time::timeout(moment, TcpStream::connect(address)).await {
            held.push(connected.unwrap());
            assert!(held.len() < 64, "it takes any number");
        }
        (address, (listener, held))
    }

    #[tokio::test]
    async fn an_address_that_does_not_answer_keeps_no_other_back() {
        let (hole, _held) = black_hole().await;
        let there = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = there.local_addr().map(|address| (address, there)).unwrap();
        let begun = Instant::now();
        let connected = first_of(vec![hole, hole, there.0]).await.unwrap();
        assert_eq!(connected.peer_addr().unwrap(), there.0);
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{:?}",
            begun.elapsed()
        );
    }

    #[tokio::test]
    async fn one_that_refuses_is_passed_over_at_once_and_the_last_one_s_reason_is_told() {
        let nobody = || async {
            let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            socket.local_addr().unwrap()
        };
        let there = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = there.local_addr().unwrap();
        first_of(vec![nobody().await, address]).await.unwrap();
        let refused = first_of(vec![nobody().await, nobody().await]).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        first_of(Vec::new()).await.unwrap_err();
    }
}
