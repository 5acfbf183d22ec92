//! Connections and sessions of a whole daemon: clients that come, say anything in
//! pieces, are cut off, and resume.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use mcp_lifecycle_core::terminate::TerminationPolicy;
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::super::admission::Admission;
use super::super::connection::serve;
use super::super::origin::{Origin, Share};
use super::super::{Daemon, Limits};
use super::choices::Choices;
use super::client::Wire;
use super::sequence::{ProcessEvent, Sequencer};
use super::server::InMemory;
use crate::link::{Counted, WebSocketLink, websocket_config};
use crate::protocol::Chunk;
use crate::protocol::process::OutputNotification;

/// A life that is longer shows nothing new, and takes its time.
const STEPS: usize = 200;

/// Whatever clients do, no output comes twice, out of order or with a gap, and when
/// the daemon ends nothing is left: no process, no session, no memory that counts.
pub fn connections(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.expect("a runtime without I/O");
    let daemon = runtime.block_on(async {
        let mut world = World::new();
        let mut choices = Choices(bytes);
        for _ in 0..STEPS {
            if !choices.more() {
                break;
            }
            world.step(&mut choices);
            settle().await;
            world.receive();
        }
        world.end().await
    });
    // With it goes what waits for a time to come.
    drop(runtime);
    let shared = &daemon.shared;
    let left = (shared.registry.memory(), shared.connections.len());
    assert_eq!(left, (0, 0));
}

/// Lets every task go on as far as it can.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

struct World {
    daemon: Daemon,
    servers: Arc<InMemory>,
    admission: Arc<Admission>,
    clients: Vec<Client>,
    /// Sessions that there have been.
    sessions: Vec<String>,
    started: u32,
    /// By session and process.
    followed: HashMap<(String, String), Followed>,
    /// Sessions that somebody may have said anything in.
    spoiled: HashSet<String>,
}

/// A client's connection.
struct Client {
    wire: Wire,
    /// The session that it was told of.
    session: Option<String>,
    extended: bool,
    /// It has sent what may mean anything.
    wild: bool,
}

/// The part of a process's output that a client has.
#[derive(Default)]
struct Followed {
    order: Option<Sequencer>,
    received: u64,
}

const PROCESSES: u32 = 4;

impl World {
    fn new() -> Self {
        let servers = Arc::new(InMemory::default());
        let limits = Limits {
            orphans: TerminationPolicy::immediate(),
            max_frame: 128 << 10,
            max_memory: 512 << 10,
            max_sessions: 8,
            max_processes: 3,
            max_processes_in_all: 6,
            window: 4096,
            stdin_queue: 2048,
            ..Limits::default()
        };
        Self {
            daemon: Daemon::new(Arc::clone(&servers) as _, limits),
            servers,
            admission: Arc::default(),
            clients: Vec::new(),
            sessions: Vec::new(),
            started: 0,
            followed: HashMap::new(),
            spoiled: HashSet::new(),
        }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        let process = |choices: &mut Choices<'_>, started: u32| {
            let back = u32::from(choices.byte()) % PROCESSES;
            format!("p{}", started.saturating_sub(back))
        };
        let action = choices.byte() % 24;
        let at = usize::from(choices.byte());
        match action {
            0 => return self.connect(),
            1 => {
                let name = process(choices, self.started);
                return self.servers.say(&name, usize::from(choices.byte()) * 16);
            }
            2 => return self.servers.hear(&process(choices, self.started)),
            3 => return self.servers.exit(&process(choices, self.started)),
            _ => {}
        }
        if self.clients.is_empty() {
            return;
        }
        let at = at % self.clients.len();
        let id = i64::from(choices.byte() % 16);
        let name = process(choices, self.started);
        let client = &mut self.clients[at];
        let request =
            |method: &str, params: Value| json!({"id": id, "method": method, "params": params});
        let named = json!({"processId": name});
        client.wild |= matches!(action, 5..=7 | 22);
        let message = match action {
            4 => {
                self.clients.remove(at);
                return;
            }
            // A frame that stops in the middle, or goes on.
            5 => {
                return client
                    .wire
                    .send_part(choices.bytes(), usize::from(choices.byte()) << 10);
            }
            6 => return client.wire.send_bytes(choices.bytes()),
            7 => return client.wire.send_frame(choices.bytes()),
            8 | 9 => {
                let resumed = self.sessions.get(usize::from(choices.byte())).cloned();
                client.extended = !choices.one_in(4);
                let wish = client.extended.then(|| {
                    json!({"mcpLifecycle": {"version": 1, "window": choices.number(),
                        "leaseMs": 60_000, "rawOutput": choices.one_in(2)}})
                });
                request(
                    "initialize",
                    json!({"clientName": "fuzz", "resumeSessionId": resumed, "extensions": wish}),
                )
            }
            10 => json!({"method": "initialized"}),
            11 | 12 => {
                self.started += 1;
                request(
                    "process/start",
                    json!({"processId": format!("p{}", self.started),
                    "argv": ["x"], "cwd": "/", "env": {}, "tty": false, "pipeStdin": !choices.one_in(4)}),
                )
            }
            // Once more, under the same name.
            13 => request(
                "process/start",
                json!({"processId": name, "argv": ["x"], "cwd": "/"}),
            ),
            14 | 15 => {
                let chunk = Chunk(vec![7; usize::from(choices.byte()) * 8].into());
                let write = choices.byte() % 32;
                request(
                    "process/write",
                    json!({"processId": name, "chunk": chunk, "writeId": write.to_string()}),
                )
            }
            16 => request(
                "process/read",
                json!({"processId": name, "afterSeq": choices.number(),
                "maxBytes": choices.number(), "waitMs": choices.number()}),
            ),
            17 => request("process/closeStdin", named),
            18 => request("process/terminate", named),
            19 => {
                let signal = ["interrupt", "terminate"][usize::from(choices.byte() % 2)];
                request(
                    "process/signal",
                    json!({"processId": name, "signal": signal}),
                )
            }
            20 => {
                let methods = ["session/ping", "environment/info", "process/survivors"];
                request(methods[usize::from(choices.byte() % 3)], named)
            }
            21 => json!({"method": "session/end"}),
            // What no client has.
            22 => json!({"method": "process/ack", "params": {"processId": name,
                "seq": choices.number(), "stdout": choices.number(), "stderr": choices.number()}}),
            _ => return self.acknowledge(at, &name),
        };
        client.wire.send_frame(message.to_string().as_bytes());
    }

    fn connect(&mut self) {
        const PIPE: usize = 64 << 10;
        if self.clients.len() >= 6 {
            return;
        }
        let (far, near) = tokio::io::duplex(PIPE);
        let shared = Arc::clone(&self.daemon.shared);
        let until = tokio::time::Instant::now() + shared.limits.handshake;
        let origin = Origin::Network(([127, 0, 0, 1], 1).into(), None);
        let ticket = self.admission.enter(origin.door(), until);
        tokio::spawn(async move {
            let config = Some(websocket_config(shared.limits.max_frame));
            let socket =
                WebSocketStream::from_raw_socket(Counted::new(near), Role::Server, config).await;
            let link = Box::new(WebSocketLink::new(socket));
            let _ = serve(&shared, link, origin, Some(ticket)).await;
        });
        self.clients.push(Client {
            wire: Wire::new(far),
            session: None,
            extended: false,
            wild: false,
        });
    }

    /// Tells what was received and consumed, as our client does.
    fn acknowledge(&mut self, at: usize, process: &str) {
        let client = &mut self.clients[at];
        let Some(session) = &client.session else {
            return;
        };
        if let Some(followed) = self.followed.get(&(session.clone(), process.to_owned())) {
            let seq = followed.order.as_ref().map_or(0, Sequencer::last);
            let message = json!({"method": "process/ack", "params": {"processId": process,
                "seq": seq, "stdout": followed.received, "stderr": 0}});
            client.wire.send_frame(message.to_string().as_bytes());
        }
    }

    /// Looks at what every client has got.
    fn receive(&mut self) {
        for at in 0..self.clients.len() {
            while let Some(frame) = self.clients[at].wire.receive() {
                self.frame(at, &frame);
            }
        }
    }

    fn frame(&mut self, at: usize, frame: &Bytes) {
        let client = &mut self.clients[at];
        let message = match crate::protocol::RawOutput::parse(frame) {
            Some(raw) => {
                let raw = raw.expect("the daemon says what can be read");
                let (name, seq) = (raw.process_id.to_owned(), raw.seq);
                return self.output(at, name, seq, raw.bytes);
            }
            None => serde_json::from_slice::<Value>(frame).expect("the daemon says JSON"),
        };
        if let Some(session) = message["result"]["sessionId"].as_str() {
            client.session = Some(session.to_owned());
            client.extended = message["result"]["extensions"]["mcpLifecycle"].is_object();
            if !self.sessions.iter().any(|known| known == session) {
                self.sessions.push(session.to_owned());
            }
        }
        if message["method"] == "process/output" {
            let it: OutputNotification =
                serde_json::from_value(message["params"].clone()).expect("output");
            self.output(at, it.process_id, it.seq, it.chunk.0);
        }
    }

    fn output(&mut self, at: usize, name: String, seq: u64, bytes: Bytes) {
        let client = &self.clients[at];
        if client.wild {
            self.spoiled.extend(client.session.clone());
        }
        // What a plain client has missed it asks for; nobody does here.
        if !client.extended || !self.servers.is_single(&name) {
            return;
        }
        let session = client.session.clone().expect("it has output of a session");
        if self.spoiled.contains(&session) {
            return;
        }
        let followed = self.followed.entry((session, name)).or_default();
        let (order, received) = (&mut followed.order, &mut followed.received);
        let order = order.get_or_insert_with(Sequencer::default);
        assert!(seq <= order.last() + 1, "{seq} after {}", order.last());
        order.accept(
            Some(seq),
            ProcessEvent::Output(crate::protocol::process::Stream::Stdout, bytes),
            &mut |event| {
                if let ProcessEvent::Output(_, bytes) = event {
                    for byte in bytes {
                        assert_eq!(byte, *received as u8, "in order, once");
                        *received += 1;
                    }
                }
            },
        );
    }

    /// Nothing is left when it has ended.
    async fn end(mut self) -> Daemon {
        let hurry = async {
            tokio::task::yield_now().await;
            self.daemon.hurry();
        };
        let (unproven, ()) = tokio::join!(self.daemon.shutdown(), hurry);
        assert_eq!(unproven, 0);
        settle().await;
        self.receive();
        self.clients.clear();
        for _ in 0..30 {
            settle().await;
        }
        assert_eq!(self.servers.alive(), 0);
        let shared = &self.daemon.shared;
        let (counters, registry) = (&shared.counters, &shared.registry);
        assert_eq!(registry.count(), 0);
        let account = shared.account(&Share::Open);
        assert_eq!(account.places.available_permits(), account.processes);
        assert_eq!(counters.started.get(), counters.gone.get());
        self.daemon
    }
}
