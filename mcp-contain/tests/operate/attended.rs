//! What the verbs say of a process that ends containers while it does so, alone.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::foreign::{NOTHING, reap};
use crate::{DEADLINE, PROGRAM, Place, send};

/// An engine that takes a create and never answers it; says when it has one. Others are hung up on.
fn stuck(socket: &Path) -> mpsc::Receiver<UnixStream> {
    let listener = UnixListener::bind(socket).unwrap();
    let (sender, created) = mpsc::channel();
    // Ends with the test process.
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let sender = sender.clone();
            // One that says nothing keeps no other waiting.
            thread::spawn(move || {
                let mut head = [0; 512];
                let length = client.read(&mut head).unwrap_or(0);
                if head[..length].windows(7).any(|part| part == b"/create") {
                    let _ = sender.send(client);
                }
            });
        }
    });
    created
}

/// The processes that have this word in their command line.
fn with_word(word: &str) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').any(|it| it == word)
    };
    numbers.filter(has).collect()
}

/// Ends them: there is no engine to wait for.
struct Left(Vec<String>);

impl Drop for Left {
    fn drop(&mut self) {
        for pid in self.0.iter().flat_map(|word| with_word(word)) {
            send(Signal::SIGKILL, pid);
        }
    }
}

/// The engine that a companion's answer names.
fn engine_in(reply: &UnixStream) -> String {
    let replies = serde_json::Deserializer::from_reader(reply);
    let parsed: Value = replies.into_iter().next().unwrap().unwrap();
    let text = |word: &Value| {
        let bytes: Vec<u8> = serde_json::from_value(word["Unix"].clone()).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let mut env = parsed["Tracked"]["env"].as_array().unwrap().iter();
    let engine = env.find(|pair| text(&pair[0]) == "DOCKER_HOST").unwrap();
    let engine = text(&engine[1]);
    engine.strip_prefix("unix://").unwrap().to_owned()
}

#[test]
fn a_process_that_ends_containers_is_nobodys_server() {
    let place = Place::new("attended");
    let socket = place.directory.path().join("engine");
    let created = stuck(&socket);
    let _left = Left(vec![place.name.clone(), socket.display().to_string()]);
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut companion = place.command(PROGRAM);
    companion
        .env("DOCKER_HOST", format!("unix://{}", socket.display()))
        .args(["--companion", &place.name])
        .stdin(OwnedFd::from(theirs));
    let word = |text: &str| json!({"Unix": text.as_bytes()});
    let order = json!({
        "grace": Duration::ZERO,
        "insists": true,
        "name": word(&place.name),
        "command": [word("docker-server")],
    });
    writeln!(&ours, "{order}").unwrap();
    companion.status().unwrap();
    drop(companion);
    let mut server = UnixStream::connect(engine_in(&ours)).unwrap();
    let create = "POST /containers/create HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
    server.write_all(create.as_bytes()).unwrap();
    let _create = created.recv_timeout(DEADLINE).expect("the create arrives");
    // Shim and guardian have gone.
    drop(ours);
    let number = with_word(&place.name);
    let [number] = number[..] else {
        panic!("one process has the name: {number:?}");
    };
    assert_eq!(reap(&place, &[&number.to_string()]), NOTHING);
    assert_eq!(with_word(&place.name), [number], "it is still at it");
}
