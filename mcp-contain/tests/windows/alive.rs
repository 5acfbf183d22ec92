//! Who lives: one connection for each process, which ends with it and says first who it is.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use mcp_lifecycle_conformance::wine;

/// The most that anything here may take: a machine with one core and many builds is slow.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Where processes of one test report, in the environment.
const ADDRESS: &str = "MCP_TEST_ALIVE";

/// Where processes of one test report.
pub(crate) struct Alive {
    address: SocketAddr,
    reports: Receiver<Living>,
}

/// A process that has reported.
pub(crate) struct Living {
    pub(crate) name: String,
    pid: u32,
    connection: TcpStream,
}

impl Alive {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (report, reports) = mpsc::channel();
        // Ends with this process: a listener cannot be told to stop.
        thread::spawn(move || {
            while let Ok((connection, _)) = listener.accept() {
                let report = report.clone();
                thread::spawn(move || {
                    if let Some(living) = Living::read(connection) {
                        let _ = report.send(living);
                    }
                });
            }
        });
        Self { address, reports }
    }

    /// What the processes of this test have in their environment.
    pub(crate) fn variable(&self) -> (&'static str, String) {
        (ADDRESS, self.address.to_string())
    }

    /// The next that reports.
    pub(crate) fn next(&self) -> Living {
        self.next_within(LIMIT).expect("nobody reported in time")
    }

    /// As [`next`](Self::next), `None` if nobody does for so long.
    pub(crate) fn next_within(&self, limit: Duration) -> Option<Living> {
        match self.reports.recv_timeout(limit) {
            Ok(living) => Some(living),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("nobody listens"),
        }
    }
}

impl Living {
    /// The name ends with a line, and nothing follows. Who was killed before that has reported nothing.
    fn read(connection: TcpStream) -> Option<Self> {
        let mut line = String::new();
        let read = BufReader::new(&connection).read_line(&mut line);
        let (name, pid) = line.strip_suffix('\n')?.split_once(' ')?;
        let (name, pid) = (name.to_owned(), pid.parse().ok()?);
        read.is_ok().then_some(Self {
            name,
            pid,
            connection,
        })
    }

    /// Waits for its end.
    pub(crate) fn ends(mut self) {
        self.connection.set_read_timeout(Some(LIMIT)).unwrap();
        match self.connection.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => panic!("{} said something", self.name),
            // Killed, not closed.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(_) if wine::has_left(self.pid) => {}
            Err(error) => panic!("{} lives: {error}", self.name),
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

/// Holds a connection to the test, if there is one, for as long as this process lives.
pub(crate) fn report(name: &str) {
    if let Ok(address) = std::env::var(ADDRESS) {
        let mut connection = TcpStream::connect(address).unwrap();
        connection
            .write_all(format!("{name} {}\n", std::process::id()).as_bytes())
            .unwrap();
        std::mem::forget(connection);
    }
}
