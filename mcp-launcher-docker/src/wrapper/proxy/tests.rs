use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::fake::{FakeEngine, within};
use crate::wrapper::ReapPolicy;

const LIMIT: Duration = Duration::from_secs(60);

fn proxy_to(engine: &FakeEngine, path: &std::path::Path) -> Proxy {
    let additions = Additions {
        mark: crate::labels::test_mark(),
        policy: ReapPolicy::All,
        sockets: None,
    };
    let reaching = Engine::new(engine.endpoint()).into();
    let host = Host::without_will(path.parent().unwrap());
    Proxy::start(path.to_owned(), reaching, additions, host).unwrap()
}

/// A volume's driver may take its time; nothing of ours waits for a volume.
#[test]
fn a_volume_that_is_not_created_yet_is_not_waited_for() {
    let (arrived, create) = std::sync::mpsc::channel();
    let engine = FakeEngine::start(move |_| {
        arrived.send(()).unwrap();
        std::thread::park();
        None
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let proxy = proxy_to(&engine, &path);
    let mut client = UnixStream::connect(&path).unwrap();
    let request = "POST /volumes/create HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";
    client.write_all(request.as_bytes()).unwrap();
    create.recv_timeout(LIMIT).unwrap();
    proxy.close();
    within("nothing is under way", proxy.fence().empty());
}

#[test]
fn a_create_whose_body_is_not_all_there_when_the_fence_closes_is_refused() {
    let asked = Arc::new(AtomicBool::new(false));
    let engine = FakeEngine::start({
        let asked = Arc::clone(&asked);
        move |_| {
            asked.store(true, Ordering::SeqCst);
            None
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let proxy = proxy_to(&engine, &path);
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    let head =
        "POST /containers/create HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    client.write_all(head.as_bytes()).unwrap();
    // It is let in as soon as its head is read.
    let mut go_on = [0; 25];
    client.read_exact(&mut go_on).unwrap();
    client.write_all(b"{").unwrap();

    proxy.close();
    within("nothing is under way", proxy.fence().empty());
    // The rest comes too late, also where it still can be sent.
    let _ = client.write_all(b"}");
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 409"), "{answer}");
    assert!(!asked.load(Ordering::SeqCst), "the engine was asked");
}

#[test]
fn a_server_that_keeps_connections_open_waits_for_its_own_and_costs_no_more() {
    let engine = FakeEngine::start(|_| Some((200, "{}".to_owned())));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let _proxy = proxy_to(&engine, &path);
    let begin = |head: &str| {
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(head.as_bytes()).unwrap();
        client
    };
    let answer = |client: &mut UnixStream, limit| {
        client.set_read_timeout(Some(limit)).unwrap();
        client.read(&mut [0; 512])
    };
    // Requests whose heads have no end yet.
    let half = |_| begin("GET /_ping HTTP/1.1\r\n");
    let mut kept: Vec<_> = (0..serve::REQUESTS).map(half).collect();
    let mut late = begin("GET /_ping HTTP/1.1\r\nHost: d\r\n\r\n");
    answer(&mut late, Duration::from_millis(300)).unwrap_err();
    kept.pop();
    answer(&mut late, LIMIT).unwrap();
}

/// Each attached client waits for what another request brings about.
#[test]
fn requests_that_wait_keep_no_other_out() {
    const ME: &str = "wrapper::proxy::tests::requests_that_wait_keep_no_other_out";
    const WAITING: usize = 200;
    if !crate::alone::is_alone(ME, "ulimit -n 4096") {
        return;
    }
    let (asked, all) = std::sync::mpsc::channel();
    let engine = FakeEngine::start(move |request| {
        if request.contains("/wait") {
            asked.send(()).unwrap();
            std::thread::park();
        }
        Some((200, "{}".to_owned()))
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let _proxy = proxy_to(&engine, &path);
    let ask = |head: &str| {
        let mut client = UnixStream::connect(&path).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        let request = format!("{head} HTTP/1.1\r\nHost: d\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        client
    };
    let status = |client: &mut UnixStream| {
        let mut start = [0; 12];
        client.read_exact(&mut start).unwrap();
        start
    };
    let mut waiting: Vec<_> = (0..WAITING)
        .map(|_| ask("POST /containers/x/wait"))
        .collect();
    for _ in 0..WAITING {
        all.recv_timeout(LIMIT).unwrap();
    }
    // Clients keep their connections, as docker's do, and are not left without one.
    let mut kept = Vec::new();
    for _ in 0..WAITING {
        let mut client = ask("GET /_ping");
        assert_eq!(&status(&mut client), b"HTTP/1.1 200");
        kept.push(client);
    }
    let mut one_more = ask("GET /events");
    let mut refusal = String::new();
    one_more.read_to_string(&mut refusal).unwrap();
    assert!(refusal.starts_with("HTTP/1.1 503"), "{refusal}");
    assert!(
        refusal.contains(r#"{"message":"the MCP server has"#),
        "{refusal}"
    );
    // One that leaves makes a place, as soon as it is known to have gone.
    waiting.pop();
    let deadline = std::time::Instant::now() + LIMIT;
    while &status(&mut ask("GET /events")) != b"HTTP/1.1 200" {
        assert!(std::time::Instant::now() < deadline, "no place is left");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Clients leave at once here, whatever they have asked for.
#[test]
fn what_outlives_its_client_keeps_its_place() {
    for target in ["/build", "/containers/create"] {
        let (asked, all) = std::sync::mpsc::channel();
        let engine = FakeEngine::start(move |_| {
            asked.send(()).unwrap();
            loop {
                std::thread::park();
            }
        });
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p");
        let _proxy = proxy_to(&engine, &path);
        let request = format!("POST {target} HTTP/1.1\r\nHost: d\r\nContent-Length: 2\r\n\r\n{{}}");
        let leave = || {
            let mut client = UnixStream::connect(&path).unwrap();
            client.write_all(request.as_bytes()).unwrap();
        };
        (0..serve::REQUESTS).for_each(|_| leave());
        for _ in 0..serve::REQUESTS {
            all.recv_timeout(LIMIT).expect(target);
        }
        leave();
        // Longer than the proxy keeps the connection of a client that has left.
        let one_more = all.recv_timeout(Duration::from_secs(7));
        assert!(one_more.is_err(), "{target}: more than its connections");
    }
}

/// The memory of this process, in MiB.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096 / (1 << 20)
}

#[test]
#[cfg(target_os = "linux")]
fn heads_that_do_not_end_cost_a_bounded_memory() {
    const ME: &str = "wrapper::proxy::tests::heads_that_do_not_end_cost_a_bounded_memory";
    if !crate::alone::is_alone(ME, "true") {
        return;
    }
    let engine = FakeEngine::start(|_| Some((200, "{}".to_owned())));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let _proxy = proxy_to(&engine, &path);
    let before = resident();
    let begun = b"GET /_ping HTTP/1.1\r\nHost: d\r\nX-Long: ".as_slice();
    let some = vec![b'x'; 4096];
    let clients = (0..serve::REQUESTS).map(|_| {
        let mut client = UnixStream::connect(&path).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        client.write_all(begun).unwrap();
        for _ in 2..serve::LONGEST_HEAD / some.len() {
            client.write_all(&some).unwrap();
        }
        client
    });
    let mut clients: Vec<_> = clients.collect();
    // What is in a socket and not in memory yet is read by the time of the last answer.
    let grown = resident() - before;
    assert!(grown < 40, "{grown} MiB");
    let mut last = clients.pop().unwrap();
    last.write_all(b"\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    last.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    let grown = resident() - before;
    println!("{} heads: {grown} MiB", clients.len() + 1);
    assert!(grown < 40, "{grown} MiB");
    // And no more than that.
    let _ = clients[0].write_all(&some.repeat(3));
    clients[0].read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 431");
}

#[test]
fn a_create_that_says_that_it_is_too_long_is_refused_at_once() {
    let engine = FakeEngine::start(|_| panic!("the engine was asked"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let _proxy = proxy_to(&engine, &path);
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    let length = create::LONGEST + 1;
    let head =
        format!("POST /containers/create HTTP/1.1\r\nHost: d\r\nContent-Length: {length}\r\n\r\n");
    client.write_all(head.as_bytes()).unwrap();
    let mut start = [0; 12];
    client.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
}

/// The end of a body in such a coding cannot be found: nobody waits for it.
#[test]
fn a_coding_that_is_not_spoken_is_refused_at_once_as_the_engine_does() {
    let engine = FakeEngine::start(|_| panic!("the engine was asked"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let _proxy = proxy_to(&engine, &path);
    for target in ["/containers/create", "/images/load"] {
        let mut client = UnixStream::connect(&path).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
        );
        client.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 501"), "{target}: {answer}");
        assert!(
            answer.ends_with("Unsupported transfer encoding"),
            "{answer}"
        );
    }
}

/// As the daemon does with what is no request, or with a file for a container that
/// is not there.
#[test]
fn an_engine_that_refuses_before_it_has_read_all_is_heard() {
    let directory = tempfile::tempdir().unwrap();
    let upstream = directory.path().join("e");
    let listener = StdListener::bind(&upstream).unwrap();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            client.read_exact(&mut [0; 64]).unwrap();
            let refusal = "HTTP/1.1 404 -\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
            client.write_all(refusal.as_bytes()).unwrap();
        }
    });
    let additions = Additions {
        mark: crate::labels::test_mark(),
        policy: ReapPolicy::All,
        sockets: None,
    };
    let path = directory.path().join("p");
    let engine = Engine::new(crate::Endpoint::Unix(upstream)).into();
    let _proxy = Proxy::start(
        path.clone(),
        engine,
        additions,
        Host::without_will(directory.path()),
    )
    .unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    // More than any socket holds.
    let body = vec![b'x'; 4 << 20];
    let length = body.len();
    let head = format!(
        "PUT /containers/x/archive?path=/ HTTP/1.1\r\nHost: d\r\nContent-Length: {length}\r\n\r\n"
    );
    let _ = client.write_all(&[head.into_bytes(), body].concat());
    let mut answer = [0; 12];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 404");
}

/// One whose length is not given.
#[test]
fn a_create_that_grows_too_long_is_refused_before_its_end() {
    let engine = FakeEngine::start(|_| panic!("the engine was asked"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let _proxy = proxy_to(&engine, &path);
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    let length = create::LONGEST + 1;
    let head = format!(
        "POST /containers/create HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n"
    );
    client.write_all(head.as_bytes()).unwrap();
    client.write_all(&vec![b' '; length]).unwrap();
    let mut start = [0; 12];
    client.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
}
