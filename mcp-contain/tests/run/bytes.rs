//! The server has the host's own streams: not a byte more, less or later than without the wrapper.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;

use crate::chance::Chance;
use crate::flow::{LONG, all_said, half_close, there_and_back};
use crate::host::{BOTH, Server, bare, in_time, wrapped};

#[test]
fn random_bytes_go_both_ways_at_once_as_they_are() {
    for streams in BOTH {
        let bytes = Chance::new().bytes(LONG);
        let mut command = wrapped(&["--grace", "20s", "cat"]);
        let back = there_and_back(&mut command, streams, &bytes);
        assert!(back == bytes, "{streams:?}");
    }
}

#[test]
fn single_bytes_come_as_single_bytes() {
    for streams in BOTH {
        let bytes = Chance::new().bytes(4096);
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
        assert_eq!(all_said(&server), b"first\n");
        server.stdin.as_mut().unwrap().write_all(b"last\n").unwrap();
        assert!(server.ended().0.success(), "{streams:?}");
        // The host's first: what the server says then still arrives.
        let script = "cat >/dev/null; echo after";
        let mut server = Server::start(&mut wrapped(&["sh", "-c", script]), streams);
        let stdin = half_close(&mut server, streams);
        assert_eq!(all_said(&server), b"after\n");
        assert!(server.ended().0.success(), "{streams:?}");
        drop(stdin);
    }
}

/// Waits until the server has read what there was and says that it reads no more: what it takes from here on is what the
/// kernel keeps for it. A server that still reads takes a page more or less, as the machine likes.
fn stops_reading(server: &mut Server) {
    server.stdin.as_mut().unwrap().write_all(b"last\n").unwrap();
    let mut stdout = server.stdout.try_clone().unwrap();
    let said = in_time(move || {
        let mut said = [0; 8];
        stdout.read_exact(&mut said).map(|()| said)
    });
    assert_eq!(&said.unwrap(), b"no more\n");
}

/// How much a server that reads nothing takes before its host has to wait.
fn taken(server: &mut Server) -> usize {
    let stdin = server.stdin.as_mut().unwrap();
    fcntl(stdin.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let mut taken = 0;
    loop {
        match stdin.write(&[0; 512]) {
            Ok(len) => taken += len,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "the server is there");
                return taken;
            }
        }
    }
}

#[test]
fn a_server_that_stops_reading_holds_its_host_back_as_without_the_wrapper() {
    for streams in BOTH {
        let script = "read line; [ \"$line\" = last ] && echo no more; kill -STOP $$";
        let words = ["sh", "-c", script];
        let mut servers =
            [bare(&words), wrapped(&words)].map(|mut command| Server::start(&mut command, streams));
        servers.iter_mut().for_each(stops_reading);
        let [bare, wrapped] = servers.each_mut().map(taken);
        assert_eq!(wrapped, bare, "{streams:?}");
        assert!(bare > 0, "{streams:?}");
        for server in servers {
            server.signal(nix::sys::signal::Signal::SIGKILL);
            server.ended();
        }
    }
}

#[test]
fn an_input_that_the_server_has_closed_is_closed_for_the_host() {
    for streams in BOTH {
        let words = ["sh", "-c", "exec <&-; echo up; exec sleep 1000"];
        let mut server = Server::start(&mut wrapped(&words), streams);
        server.stdout.read_exact(&mut [0; 3]).unwrap();
        let mut stdin = server.stdin.take().unwrap();
        // The guardian may have its copy for a moment.
        let closed = in_time(move || {
            loop {
                if let Err(error) = stdin.write_all(b"x") {
                    return error.kind();
                }
                std::thread::yield_now();
            }
        });
        // The latter of a socket in which bytes were unread.
        let kinds = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
        assert!(kinds.contains(&closed), "{streams:?}: {closed}");
        server.signal(Signal::SIGTERM);
        server.ended();
    }
}
