//! `host`: what a living host abandons is ended, and nothing else.

use std::io::{BufRead as _, BufReader, Write as _};

use crate::host::{Alive, Server, Streams, in_time, wrapped};

/// A host that obeys its standard input: it starts a server below a wrapper, drops one, or asks one.
/// A server has pipes, or sockets as those of Node.
const HOST: &str = r#"
import os, signal, socket, subprocess, sys

servers = {}
for line in iter(sys.stdin.readline, ""):
    verb, name, *words = line.split()
    if verb == "start":
        pair = [socket.socketpair() if words[0] == "sockets" else os.pipe() for _ in range(3)]
        ends = [[end if isinstance(end, int) else end.detach() for end in ends] for ends in pair]
        (input, own_input), (own_output, output), (own_error, error) = ends
        wrapper = subprocess.Popen(["sh", "-c", " ".join(words[1:])], stdin=input, stdout=output,
                                   stderr=error, preexec_fn=lambda: os.setpgid(0, 0))
        for fd in input, output, error:
            os.close(fd)
        os.read(own_output, 1)
        servers[name] = wrapper, own_input, own_output, own_error
    wrapper, own_input, own_output, own_error = servers[name]
    if verb == "orphan":
        wrapper.kill()
        wrapper.wait()
    if verb == "drop":
        for fd in own_input, own_output, own_error:
            os.close(fd)
    if verb == "ask":
        os.write(own_input, b"ask\n")
        assert os.read(own_output, 1) == b"."
    print("did", verb, flush=True)
"#;

/// A server that answers each line, and lives on after the end of its input. (A shell would have another
/// input while it waits.)
const SERVER: &str = r#"
import os, signal, socket, subprocess, sys

alive, *how = sys.argv[1:]
os.set_inheritable(os.open(alive, os.O_WRONLY), True)
if "deaf" in how:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, sys.argv[0], alive, "child"], close_fds=False)
if "blocks" in how:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
if "listens" in how:
    listener = socket.create_server(("127.0.0.1", 0))
if "child" not in how:
    os.write(1, b".")
for number, name in enumerate(("null", "file", "log")):
    if name in how:
        os.dup2(os.open(os.devnull if name == "null" else alive + "." + name, os.O_RDWR | os.O_CREAT), number)
for line in iter(sys.stdin.readline, ""):
    os.write(1, b".")
while True:
    signal.pause()
"#;

struct Host {
    server: Server,
    said: BufReader<std::fs::File>,
}

impl Host {
    fn start(alive: &Alive) -> Self {
        let script = alive.file("host");
        std::fs::write(&script, HOST).unwrap();
        let script = script.display().to_string();
        let server = Server::start(
            &mut wrapped(&["host", "--", "python3", &script]),
            Streams::Pipes,
        );
        let said = BufReader::new(server.stdout.try_clone().unwrap());
        Self { server, said }
    }

    fn does(&mut self, order: &str) {
        let mut input = self.server.stdin.as_ref().expect("open");
        writeln!(input, "{order}").expect("written");
        let mut said = String::new();
        self.said.read_line(&mut said).expect("an answer");
        let verb = order.split(' ').next().expect("a verb");
        assert_eq!(said, format!("did {verb}\n"), "{order}");
    }

    /// Starts a server of this kind, with something in front of it, below a wrapper.
    fn starts(&mut self, name: &str, streams: &str, alive: &Alive, front: &str, how: &str) {
        let file = alive.file("server");
        std::fs::write(&file, SERVER).unwrap();
        let [file, alive] = [file, alive.file("alive")].map(|path| path.display().to_string());
        self.does(&format!(
            "start {name} {streams} {front} python3 {file} {alive} {how}; :"
        ));
    }

    fn abandons(&mut self, name: &str) {
        self.does(&format!("orphan {name}"));
        self.does(&format!("drop {name}"));
    }
}

fn ends_what_is_abandoned(streams: &str) {
    let [mut dropped, mut orphaned, mut closed] = [0; 3].map(|_| Alive::new());
    let mut host = Host::start(&dropped);
    host.starts("dropped", streams, &dropped, "", "");
    host.starts("orphaned", streams, &orphaned, "", "");
    host.starts("closed", streams, &closed, "", "");
    // Each fact alone ends nothing.
    host.does("orphan orphaned");
    host.does("drop closed");
    host.abandons("dropped");
    dropped.nobody_is_left();
    host.does("ask orphaned");
    // The looks that end this one are looks at the others as well.
    let mut second = Alive::new();
    host.starts("second", streams, &second, "", "");
    host.abandons("second");
    second.nobody_is_left();
    host.does("ask orphaned");
    assert!(orphaned.somebody_is_left() && closed.somebody_is_left());
    drop(host.server.stdin.take());
    let (status, said) = in_time(|| host.server.ended());
    assert!(status.success(), "{said}");
    orphaned.nobody_is_left();
    closed.nobody_is_left();
}

#[test]
fn an_abandoned_server_with_pipes_ends_while_its_host_lives() {
    ends_what_is_abandoned("pipes");
}

#[test]
fn an_abandoned_server_with_sockets_ends_while_its_host_lives() {
    ends_what_is_abandoned("sockets");
}

#[test]
fn a_deaf_server_is_killed_with_what_it_has_started() {
    let mut alive = Alive::new();
    let mut host = Host::start(&alive);
    host.starts("deaf", "pipes", &alive, "", "deaf");
    host.abandons("deaf");
    alive.nobody_is_left();
    drop(host.server.stdin.take());
    assert!(in_time(|| host.server.ended()).0.success());
}

#[test]
fn what_was_started_to_stay_stays_with_its_host() {
    let mut first = Alive::new();
    let mut host = Host::start(&first);
    let mut daemons = Vec::new();
    for (front, how) in [
        ("setsid", ""),
        ("nohup", ""),
        ("", "listens"),
        // As a process that removes a dead host's containers.
        ("", "blocks"),
        ("", "null"),
        ("", "file"),
        ("", "null file log"),
    ] {
        let (alive, name) = (Alive::new(), format!("daemon{}", daemons.len()));
        host.starts(&name, "pipes", &alive, front, how);
        host.abandons(&name);
        daemons.push((format!("{front} {how}"), alive));
    }
    // The looks that end these were looks at the others as well.
    let mut second = Alive::new();
    for server in [&mut first, &mut second] {
        host.starts("server", "pipes", server, "", "");
        host.abandons("server");
        server.nobody_is_left();
    }
    let mut ended: Vec<_> = daemons.iter_mut().collect();
    ended.retain_mut(|(_, daemon)| !daemon.somebody_is_left());
    assert!(ended.is_empty(), "{ended:?}");
    drop(host.server.stdin.take());
    assert!(in_time(|| host.server.ended()).0.success());
    for (_, daemon) in &mut daemons {
        daemon.nobody_is_left();
    }
}
