//! Bytes to a server, and back from it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitStatus};
use std::thread;

use crate::host::{Server, Streams, in_time};

/// The length of a stream that no buffer holds.
pub(crate) const LONG: usize = 64 << 20;

/// Says what there is to say, and closes.
pub(crate) fn write_all(
    mut to: File,
    bytes: Vec<u8>,
    at_a_time: usize,
) -> thread::JoinHandle<io::Result<()>> {
    thread::spawn(move || {
        bytes
            .chunks(at_a_time)
            .try_for_each(|some| to.write_all(some))
    })
}

/// All that a server says, in time.
pub(crate) fn all_said(server: &Server) -> Vec<u8> {
    let mut stdout = server.stdout.try_clone().unwrap();
    let said = in_time(move || {
        let mut said = Vec::new();
        stdout.read_to_end(&mut said).map(|_| said)
    });
    said.unwrap()
}

/// The bytes that come back of these, both ways at once.
pub(crate) fn there_and_back(command: &mut Command, streams: Streams, bytes: &[u8]) -> Vec<u8> {
    let mut server = Server::start(command, streams);
    let writer = write_all(server.stdin.take().unwrap(), bytes.to_vec(), 1 << 16);
    let back = all_said(&server);
    writer.join().unwrap().unwrap();
    assert_eq!(server.ended(), (ExitStatus::default(), String::new()));
    back
}

/// Closes the host's end for writing, and keeps what there is of it for reading.
pub(crate) fn half_close(server: &mut Server, streams: Streams) -> Option<UnixStream> {
    let stdin = server.stdin.take().unwrap();
    match streams {
        Streams::Pipes => None,
        Streams::Sockets => {
            let stream = UnixStream::from(OwnedFd::from(stdin));
            stream.shutdown(Shutdown::Write).unwrap();
            Some(stream)
        }
    }
}
