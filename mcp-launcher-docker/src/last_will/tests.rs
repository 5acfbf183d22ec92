use std::collections::BTreeSet;
use std::sync::mpsc;

use super::*;
use super::{Order, spawn};
use crate::fake::FakeEngine;

const LIMIT: Duration = Duration::from_secs(20);

fn order(socket: &Path) -> Order {
    Order {
        socket: socket.to_owned(),
        grace: Duration::from_millis(10),
        limit: LIMIT,
        instance: "me".to_owned(),
        role: Role::Server,
    }
}

fn id(n: u8) -> String {
    format!("{n:064x}")
}

fn removal(name: &str) -> String {
    format!("DELETE /containers/{name}?force=1&v=1 HTTP/1.1")
}

#[test]
fn what_the_host_did_not_know_of_is_found_and_strangers_are_spared() {
    let (heard, requests) = mpsc::channel();
    let daemon = FakeEngine::start(move |request| {
        let text = |text: String| Some((200, text));
        let sha = |n| format!("sha256:{}", id(n));
        heard.send(request.to_owned()).unwrap();
        match request {
            r if r.starts_with("DELETE") => Some((204, String::new())),
            r if r.starts_with("GET /images/json?") => text(format!(r#"[{{"Id":"{}"}}]"#, sha(9))),
            _ => {
                let container = |n: u8, image: u8| {
                    let command = r#"[\"Id\":\"0\",\"x"#;
                    format!(
                        r#"{{"Id":"{}","Names":["/a"],"ImageID":"{}","Command":"{command}"}}"#,
                        id(n),
                        sha(image)
                    )
                };
                text(format!(
                    "[{},{},{}]",
                    container(1, 8),
                    container(2, 9),
                    container(3, 8)
                ))
            }
        }
    });
    let order = order(&daemon.socket());
    let (mut child, stdin, _stdout) = spawn(&order).unwrap();
    drop(stdin);
    let mut removed = BTreeSet::new();
    while removed.len() < 2 {
        let request = requests.recv_timeout(LIMIT).unwrap();
        if request.starts_with("DELETE") {
            removed.insert(request);
        } else {
            assert!(
                request.contains("dev%2Emcp%2Dlifecycle%2Eme%2Eon%2Dend%3Dend")
                    && request.contains("dev%2Emcp%2Dlifecycle%2Eme%2Erole%3Dserver"),
                "{request}"
            );
        }
    }
    assert_eq!(removed, [removal(&id(1)), removal(&id(3))].into());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn it_ends_with_its_launcher() {
    let wills = Wills::new("me", Role::Server);
    let socket = Path::new("/no/such/socket");
    assert_eq!(wills.is_alive(socket), None);
    wills.cover(socket);
    assert_eq!(wills.is_alive(socket), Some(true));
    let pid = pid(wills.by_socket.lock()[socket].as_ref().unwrap());
    // It cannot be replaced by another program, and needs no executable file system.
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    let program = program.to_string_lossy();
    assert!(program.starts_with("/memfd:mcp-init"), "{program}");
    drop(wills);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

/// A pipe that the host passes on to its children does not stay open for it.
#[test]
fn it_holds_nothing_that_its_host_had_open() {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    let (mut reader, writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let order = order(Path::new("/no/such/socket"));
    let (mut child, stdin, _stdout) = spawn(&order).unwrap();
    drop(writer);
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || ended.send(std::io::copy(&mut reader, &mut std::io::sink())));
    let in_time = end.recv_timeout(LIMIT);
    drop(stdin);
    child.kill().unwrap();
    child.wait().unwrap();
    in_time.expect("end of file while it lives").unwrap();
}

#[test]
fn one_that_died_is_replaced() {
    let (heard, requests) = mpsc::channel();
    let daemon = FakeEngine::start(move |request| {
        heard.send(request.to_owned()).unwrap();
        listed(request, 1)
    });
    let will = LastWill::begin(order(&daemon.socket())).unwrap();
    let first = pid(&will);
    let process = || will.process.lock();
    process().as_mut().unwrap().0.kill().unwrap();
    let deadline = std::time::Instant::now() + LIMIT;
    while !will.is_alive() || pid(&will) == first {
        assert!(std::time::Instant::now() < deadline, "it is not replaced");
        std::thread::yield_now();
    }
    // As the host's death does.
    let (mut child, stdin) = process().take().unwrap();
    drop(stdin);
    let removes = |request: &String| *request == removal(&id(0));
    while !removes(&requests.recv_timeout(LIMIT).unwrap()) {}
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Answers with so many containers of the host, and removes them.
fn listed(request: &str, count: u8) -> crate::fake::Answer {
    let container = |n| format!(r#"{{"Id":"{}","ImageID":"sha256:{}"}}"#, id(n), id(255));
    match request {
        r if r.starts_with("GET /images/json?") => Some((200, "[]".to_owned())),
        r if r.starts_with("GET") => {
            let all: Vec<_> = (0..count).map(container).collect();
            Some((200, format!("[{}]", all.join(","))))
        }
        _ => Some((204, String::new())),
    }
}

fn pid(will: &LastWill) -> u32 {
    let process = will.process.lock();
    process.as_ref().map_or(0, |(child, _)| child.id())
}

/// By which removal it is stuck, nobody knows before.
#[test]
fn a_container_that_the_daemon_is_stuck_with_saves_no_other() {
    const ALL: u8 = 200;
    let (heard, requests) = mpsc::channel();
    let daemon = FakeEngine::start(move |request| {
        heard.send(request.to_owned()).unwrap();
        if request.contains(&id(0)) {
            std::thread::park();
        }
        listed(request, ALL)
    });
    let (mut child, stdin, _stdout) = spawn(&order(&daemon.socket())).unwrap();
    drop(stdin);
    let mut removed = BTreeSet::new();
    while removed.len() < usize::from(ALL) {
        let request = requests.recv_timeout(LIMIT);
        let request = request.unwrap_or_else(|_| panic!("only {}", removed.len()));
        if request.starts_with("DELETE") {
            removed.insert(request);
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Stopped, whether or not there is a place left among those who wait for it.
#[test]
fn a_daemon_that_does_nothing_is_not_waited_for_longer_than_the_limit() {
    use nix::sys::socket::{Backlog, listen};
    use std::os::unix::net::{UnixListener, UnixStream};
    let directory = tempfile::tempdir().unwrap();
    for is_full in [false, true] {
        let socket = directory.path().join(is_full.to_string());
        let listener = UnixListener::bind(&socket).unwrap();
        listen(&listener, Backlog::new(1).unwrap()).unwrap();
        let count = if is_full { 2 } else { 0 };
        let waiting: Vec<_> = (0..count).map(|_| UnixStream::connect(&socket)).collect();
        let order = Order {
            limit: Duration::from_millis(500),
            ..order(&socket)
        };
        let (mut child, stdin, stdout) = spawn(&order).unwrap();
        drop(stdin);
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || ended.send(std::io::read_to_string(stdout)));
        let in_time = end.recv_timeout(LIMIT);
        child.kill().unwrap();
        child.wait().unwrap();
        in_time
            .unwrap_or_else(|_| panic!("full: {is_full}"))
            .unwrap();
        drop(waiting);
    }
}

/// It refuses, for a disk is busy.
#[test]
fn a_removal_that_failed_is_ordered_again() {
    let (heard, requests) = mpsc::channel();
    let daemon = FakeEngine::start(move |request| {
        heard.send(request.to_owned()).unwrap();
        match request.starts_with("DELETE") {
            true => Some((500, r#"{"message":"device is busy"}"#.to_owned())),
            false => listed(request, 1),
        }
    });
    let order = Order {
        limit: Duration::from_secs(2),
        ..order(&daemon.socket())
    };
    let (mut child, stdin, _stdout) = spawn(&order).unwrap();
    drop(stdin);
    assert!(!child.wait().unwrap().success(), "it is not done");
    let removals = requests.try_iter().filter(|it| it.starts_with("DELETE"));
    assert!(removals.count() > 1);
}
#[test]
fn where_it_could_not_be_begun_it_is_tried_again() {
    const ME: &str = "last_will::tests::where_it_could_not_be_begun_it_is_tried_again";
    if !crate::alone::is_alone(ME, "ulimit -n 64") {
        return;
    }
    // The thread has its descriptors.
    drop(CONTROL.spawn(async {}).unwrap());
    let (wills, socket) = (Wills::new("me", Role::Server), Path::new("/no/such/socket"));
    let taken = crate::alone::fill_descriptors();
    wills.cover(socket);
    assert_eq!(wills.is_alive(socket), Some(false));
    drop(taken);
    wills.cover(socket);
    assert_eq!(wills.is_alive(socket), Some(true));
}

#[test]
fn one_that_died_is_replaced_later_where_it_cannot_be_at_once() {
    const ME: &str = "last_will::tests::one_that_died_is_replaced_later_where_it_cannot_be_at_once";
    if !crate::alone::is_alone(ME, "ulimit -n 64") {
        return;
    }
    let deadline = std::time::Instant::now() + LIMIT;
    let eventually = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(std::time::Instant::now() < deadline, "it is not replaced");
            std::thread::yield_now();
        }
    };
    let will = LastWill::begin(order(Path::new("/no/such/socket"))).unwrap();
    let process = || will.process.lock();
    let taken = crate::alone::fill_descriptors();
    process().as_mut().unwrap().0.kill().unwrap();
    eventually(&|| process().is_none());
    drop(taken);
    eventually(&|| will.is_alive());
}

/// The process has pipes of its own under these numbers.
#[test]
fn a_host_without_standard_streams_begins_it_all_the_same() {
    use nix::unistd::{close, dup2_stderr, dup2_stdin, dup2_stdout};
    use std::os::fd::AsFd;
    const ME: &str = "last_will::tests::a_host_without_standard_streams_begins_it_all_the_same";
    if !crate::alone::is_alone(ME, ":") {
        return;
    }
    let kept = |stream: &dyn AsFd| stream.as_fd().try_clone_to_owned().unwrap();
    let [stdin, stdout, stderr] = [
        kept(&std::io::stdin()),
        kept(&std::io::stdout()),
        kept(&std::io::stderr()),
    ];
    (0..3).for_each(|stream| close(stream).unwrap());
    let order = Order {
        limit: Duration::ZERO,
        ..order(Path::new("/no/such/socket"))
    };
    let started = spawn(&order);
    let ended = started.map(|(mut child, stdin, stdout)| {
        drop((stdin, stdout));
        child.wait().unwrap()
    });
    dup2_stdin(&stdin).unwrap();
    dup2_stdout(&stdout).unwrap();
    dup2_stderr(&stderr).unwrap();
    // It had its arguments, and no time to reach a daemon.
    assert_eq!(ended.unwrap().code(), Some(1));
}
