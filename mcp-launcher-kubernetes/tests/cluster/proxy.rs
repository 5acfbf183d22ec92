//! A way to the API server on which answers are lost.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use mcp_launcher_kubernetes::KubernetesLauncher;
use serde_json::json;

/// What becomes of the first request that begins so.
pub(crate) enum Fault {
    /// It is carried out, and the connection is cut before its answer.
    AnswerLost(String),
    /// It never arrives, and the connection stays.
    Silence(String),
}

impl Fault {
    fn request(&self) -> &str {
        match self {
            Self::AnswerLost(request) | Self::Silence(request) => request,
        }
    }
}

/// Stands between a launcher and the API server, for requests that are not encrypted.
pub(crate) struct Proxy {
    kubectl: Child,
    address: String,
    shared: Arc<Shared>,
}

struct Shared {
    faults: Mutex<Vec<Fault>>,
    /// Nothing comes from a watch.
    is_deaf: AtomicBool,
    watches: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub(crate) fn start(faults: Vec<Fault>) -> Self {
        let mut kubectl = Command::new("kubectl")
            // All paths but this one.
            .args(["proxy", "--port=0", "--reject-paths=^/none$"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(kubectl.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let server = line.trim().rsplit(' ').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            faults: Mutex::new(faults),
            is_deaf: AtomicBool::new(false),
            watches: Mutex::default(),
        });
        let ways = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                // `kubectl` ends with the test, and so does this.
                let Ok(server) = TcpStream::connect(&server) else {
                    return;
                };
                join(client.unwrap(), server, Arc::clone(&ways));
            }
        });
        Self {
            kubectl,
            address,
            shared,
        }
    }

    /// A launcher that knows no other way.
    pub(crate) fn launcher(&self, namespace: &str) -> KubernetesLauncher {
        let file = tempfile::NamedTempFile::new().unwrap();
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "u", "user": {}}]});
        std::fs::write(file.path(), config.to_string()).unwrap();
        let (_, path) = file.keep().unwrap();
        let launcher = KubernetesLauncher::builder().namespace(namespace);
        launcher.kubeconfig(path).build().unwrap()
    }

    /// Adds one for requests from now on.
    pub(crate) fn add(&self, fault: Fault) {
        self.shared.faults.lock().unwrap().push(fault);
    }

    /// Nothing comes from a watch from now on.
    pub(crate) fn deafen(&self) {
        self.shared.is_deaf.store(true, Ordering::SeqCst);
    }

    /// The watches that were deaf are cut, and the next ones are not.
    pub(crate) fn hear(&self) {
        self.shared.is_deaf.store(false, Ordering::SeqCst);
        for watch in self.shared.watches.lock().unwrap().drain(..) {
            let _ = watch.shutdown(Shutdown::Both);
        }
    }

    /// Whether all have happened.
    pub(crate) fn is_done(&self) -> bool {
        self.shared.faults.lock().unwrap().is_empty()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}

/// What is done with what was read.
enum Then {
    PassOn,
    Swallow,
    Cut,
}

/// Passes on what either side sends, until either side is done.
fn join(client: TcpStream, server: TcpStream, shared: Arc<Shared>) {
    let is_lost = Arc::new(AtomicBool::new(false));
    let is_watch = Arc::new(AtomicBool::new(false));
    let (lost, watch, ways) = (
        Arc::clone(&is_lost),
        Arc::clone(&is_watch),
        Arc::clone(&shared),
    );
    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let back = client.try_clone().unwrap();
    std::thread::spawn(move || {
        pass(from, to, |request| {
            if request.windows(10).any(|words| words == b"watch=true") {
                is_watch.store(true, Ordering::SeqCst);
                let watch = client.try_clone().unwrap();
                shared.watches.lock().unwrap().push(watch);
            }
            let mut faults = shared.faults.lock().unwrap();
            let fault = |fault: &Fault| request.starts_with(fault.request().as_bytes());
            match faults.iter().position(fault).map(|at| faults.remove(at)) {
                None => Then::PassOn,
                Some(Fault::AnswerLost(_)) => {
                    is_lost.store(true, Ordering::SeqCst);
                    Then::PassOn
                }
                Some(Fault::Silence(_)) => Then::Swallow,
            }
        });
    });
    std::thread::spawn(move || {
        pass(server, back, |_| {
            let is = |what: &AtomicBool| what.load(Ordering::SeqCst);
            match is(&lost) {
                true => Then::Cut,
                false if is(&watch) && is(&ways.is_deaf) => Then::Swallow,
                false => Then::PassOn,
            }
        });
    });
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut decide: impl FnMut(&[u8]) -> Then) {
    let mut buffer = vec![0; 64 * 1024];
    let mut swallows = false;
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let read = &buffer[..read];
        match decide(read) {
            Then::PassOn if swallows => {}
            Then::PassOn => {
                if to.write_all(read).is_err() {
                    break;
                }
            }
            Then::Swallow => swallows = true,
            Then::Cut => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
