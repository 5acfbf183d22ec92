//! Connects to a name that has several addresses.
//!
//! By hand: hyper-util's connector would bring an HTTP client into every host, and it tries the
//! addresses of one family in sequence.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::sleep;

/// Time before the next address is tried in parallel (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);

pub(super) async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    first_of(in_turn(addresses)).await
}

/// Alternates address families, so that a network with only one of them costs one wait. The first
/// address stays first.
fn in_turn(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first().map(SocketAddr::is_ipv6) else {
        return addresses;
    };
    let of = |same: bool| {
        addresses
            .iter()
            .filter(move |a| (a.is_ipv6() == first) == same)
    };
    let (mut same, mut other) = (of(true), of(false));
    let mut turns = Vec::with_capacity(addresses.len());
    while turns.len() < addresses.len() {
        turns.extend(same.next());
        turns.extend(other.next());
    }
    turns
}

async fn first_of(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut failure = io::Error::other("the name has no address");
    loop {
        match waiting.next() {
            Some(address) => attempts.push(TcpStream::connect(address)),
            None if attempts.is_empty() => return Err(failure),
            None => {}
        }
        tokio::select! {
            Some(outcome) = attempts.next() => match outcome {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            },
            () = sleep(STAGGER), if waiting.len() > 0 => {}
        }
    }
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

    #[test]
    fn families_take_turns() {
        let addresses = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"];
        let addresses = addresses.map(|a| a.parse::<SocketAddr>().unwrap());
        let [a, b, c, d] = addresses;
        assert_eq!(in_turn(addresses.to_vec()), [a, d, b, c]);
        assert_eq!(in_turn(Vec::new()), []);
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
