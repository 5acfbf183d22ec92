//! Who lives: one connection for each process, which ends with it.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::wine;

/// Where processes of one test report.
pub(crate) struct Alive {
    listener: TcpListener,
}

/// A process that has reported.
pub(crate) struct Living {
    connection: TcpStream,
    pid: u32,
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
            if let Ok((connection, _)) = self.listener.accept()
                && let Some(living) = Living::read(connection)
            {
                return Some(living);
            }
            if Instant::now() >= end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Living {
    /// It says its number first. Who was killed before that has reported nothing.
    fn read(mut connection: TcpStream) -> Option<Self> {
        let mut pid = [0; 4];
        connection.set_nonblocking(false).unwrap();
        connection.set_read_timeout(Some(LIMIT)).unwrap();
        connection.read_exact(&mut pid).ok()?;
        let pid = u32::from_le_bytes(pid);
        Some(Self { connection, pid })
    }

    /// Waits for its end.
    pub(crate) fn ends(mut self) {
        match self.connection.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => panic!("it said something"),
            // Killed, not closed.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(_) if wine::has_left(self.pid) => {}
            Err(error) => panic!("process {} lives: {error}", self.pid),
        }
    }

    /// Returns whether it has not ended.
    pub(crate) fn lives(&self) -> bool {
        self.connection.set_nonblocking(true).unwrap();
        let answer = self.connection.peek(&mut [0]);
        self.connection.set_nonblocking(false).unwrap();
        matches!(answer, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}
