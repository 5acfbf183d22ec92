//! The server has the host's own streams: not a byte more, less or later than without the wrapper.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::host::{BOTH, Server, Streams, bare, in_time, wrapped};

const LONG: usize = 64 << 20;

/// Bytes that follow from a seed, all different enough (xorshift).
fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn seed() -> u64 {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    seed
}

/// Says what there is to say, and closes.
fn write_all(mut to: File, bytes: Vec<u8>, at_a_time: usize) -> thread::JoinHandle<io::Result<()>> {
    thread::spawn(move || {
        bytes
            .chunks(at_a_time)
            .try_for_each(|some| to.write_all(some))
    })
}

#[test]
fn random_bytes_go_both_ways_at_once_as_they_are() {
    for streams in BOTH {
        let bytes = random(seed(), LONG);
        let mut server = Server::start(&mut wrapped(&["--grace", "20s", "cat"]), streams);
        let writer = write_all(server.stdin.take().unwrap(), bytes.clone(), 1 << 16);
        let mut stdout = server.stdout.try_clone().unwrap();
        let back = in_time(move || {
            let mut back = Vec::new();
            stdout.read_to_end(&mut back).map(|_| back)
        });
        assert!(back.unwrap() == bytes, "{streams:?}");
        writer.join().unwrap().unwrap();
        assert_eq!(server.ended(), (Default::default(), String::new()));
    }
}

#[test]
fn single_bytes_come_as_single_bytes() {
    for streams in BOTH {
        let bytes = random(seed(), 4096);
        let mut server = Server::start(&mut wrapped(&["cat"]), streams);
        let mut stdin = server.stdin.take().unwrap();
        for byte in &bytes {
            stdin.write_all(std::slice::from_ref(byte)).unwrap();
            let mut back = [0; 2];
            assert_eq!(
                server.stdout.read(&mut back).unwrap(),
                1,
                "nothing is kept back"
            );
            assert_eq!(back[0], *byte);
        }
        drop(stdin);
        assert!(server.ended().0.success());
    }
}

#[test]
fn either_direction_can_end_first() {
    for streams in BOTH {
        // The server's first: the host sees it while it can still write.
        let script = "echo first; exec >&-; read line; [ \"$line\" = last ]";
        let mut server = Server::start(&mut wrapped(&["sh", "-c", script]), streams);
        let mut stdout = server.stdout.try_clone().unwrap();
        let said = in_time(move || {
            let mut said = String::new();
            stdout.read_to_string(&mut said).map(|_| said)
        });
        assert_eq!(said.unwrap(), "first\n");
        server.stdin.as_mut().unwrap().write_all(b"last\n").unwrap();
        assert!(server.ended().0.success(), "{streams:?}");
        // The host's first: what the server says then still arrives.
        let script = "cat >/dev/null; echo after";
        let mut server = Server::start(&mut wrapped(&["sh", "-c", script]), streams);
        let stdin = server.stdin.take().unwrap();
        let stdin = match streams {
            Streams::Pipes => {
                drop(stdin);
                None
            }
            Streams::Sockets => {
                let stream = UnixStream::from(OwnedFd::from(stdin));
                stream.shutdown(Shutdown::Write).unwrap();
                Some(stream)
            }
        };
        let mut said = String::new();
        server.stdout.read_to_string(&mut said).unwrap();
        assert_eq!(said, "after\n");
        assert!(server.ended().0.success(), "{streams:?}");
        drop(stdin);
    }
}

/// How much a server that reads nothing takes before its host has to wait.
fn taken(server: &mut Server) -> usize {
    let stdin = server.stdin.as_mut().unwrap();
    fcntl(stdin.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let mut taken = 0;
    while let Ok(len) = stdin.write(&[0; 512]) {
        taken += len;
    }
    taken
}

#[test]
fn a_server_that_stops_reading_holds_its_host_back_as_without_the_wrapper() {
    for streams in BOTH {
        let words = ["sh", "-c", "read line; kill -STOP $$"];
        let mut bare = Server::start(&mut bare(&words), streams);
        let mut wrapped = Server::start(&mut wrapped(&words), streams);
        assert_eq!(taken(&mut wrapped), taken(&mut bare), "{streams:?}");
        for server in [bare, wrapped] {
            server.signal(nix::sys::signal::Signal::SIGKILL);
            server.ended();
        }
    }
}
