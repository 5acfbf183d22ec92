//! A TCP connection whose dead peer is noticed: a machine that was switched off, or a
//! router that has forgotten the connection, never says that it ended.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// How long nothing may come before the peer is asked whether it is there.
const QUIET: Duration = Duration::from_secs(15);

/// The pause between two such questions.
const AGAIN: Duration = Duration::from_secs(5);

/// So many that are not answered end the connection.
#[cfg(not(windows))]
const TRIES: u32 = 3;

/// Data that the peer has not acknowledged for so long ends the connection as well.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

pub(super) async fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    let socket = SockRef::from(&stream);
    let keepalive = TcpKeepalive::new().with_time(QUIET).with_interval(AGAIN);
    #[cfg(not(windows))]
    let keepalive = keepalive.with_retries(TRIES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(stream)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_that_vanishes_is_noticed_in_half_a_minute() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stream = connect(&address).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        let after = socket.tcp_keepalive_time().unwrap()
            + socket.tcp_keepalive_interval().unwrap() * socket.tcp_keepalive_retries().unwrap();
        assert_eq!(after, Duration::from_secs(30));
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED));
    }
}
