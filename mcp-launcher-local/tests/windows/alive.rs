//! Who lives: one connection for each process, which ends with it.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Where processes of one test report.
pub(crate) struct Alive {
    listener: TcpListener,
}

/// A process that has reported.
pub(crate) struct Living {
    connection: TcpStream,
}

/// The most that anything here may take: a machine with one core and many builds is slow.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

impl Alive {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        Self { listener }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// The next that reports.
    pub(crate) fn next(&self) -> Living {
        self.next_within(LIMIT).expect("nobody reported in time")
    }

    /// As [`next`](Self::next), `None` if nobody does for so long.
    pub(crate) fn next_within(&self, limit: Duration) -> Option<Living> {
        let end = Instant::now() + limit;
        self.listener.set_nonblocking(true).unwrap();
        loop {
            if let Ok((connection, _)) = self.listener.accept() {
                connection.set_nonblocking(false).unwrap();
                return Some(Living { connection });
            }
            if Instant::now() >= end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Living {
    /// Waits for its end.
    pub(crate) fn ends(mut self) {
        self.connection.set_read_timeout(Some(LIMIT)).unwrap();
        match self.connection.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => panic!("it said something"),
            // Killed, not closed.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("it lives: {error}"),
        }
    }

    /// Returns whether it has not ended.
    pub(crate) fn lives(&self) -> bool {
        self.connection.set_nonblocking(true).unwrap();
        let answer = self.connection.peek(&mut [0]);
        self.connection.set_nonblocking(false).unwrap();
        matches!(answer, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }
}
