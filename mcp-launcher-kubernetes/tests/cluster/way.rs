//! A way to the API server that cuts what is quiet, or that cannot be trusted any more.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_launcher_kubernetes::{KubernetesLauncher, KubernetesLauncherBuilder};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;

/// Passes on what is encrypted, byte by byte.
pub(crate) struct Way {
    kubeconfig: tempfile::NamedTempFile,
    shared: Arc<Shared>,
}

struct Shared {
    server: String,
    /// A connection is cut when either side has said nothing for so long.
    idle: Option<Duration>,
    /// Somebody else answers.
    is_foreign: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Way {
    pub(crate) fn new(idle: Option<Duration>) -> Self {
        let config = std::fs::read_to_string(std::env::var("KUBECONFIG").unwrap()).unwrap();
        let mut config: Value = serde_json::from_str(&config).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = &mut config["clusters"][0]["cluster"]["server"];
        let shared = Arc::new(Shared {
            server: server.as_str().unwrap().replace("https://", ""),
            idle,
            is_foreign: AtomicBool::new(false),
            open: Mutex::default(),
        });
        // The certificate is for this address, whatever the port.
        *server = format!("https://{}", listener.local_addr().unwrap()).into();
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(kubeconfig.path(), config.to_string()).unwrap();
        let way = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, way) = (client.unwrap(), Arc::clone(&way));
                std::thread::spawn(move || way.carry(client));
            }
        });
        Self { kubeconfig, shared }
    }

    /// A launcher that knows no other way.
    pub(crate) fn launcher(&self, namespace: &str) -> KubernetesLauncherBuilder {
        let launcher = KubernetesLauncher::builder().namespace(namespace);
        launcher.kubeconfig(self.kubeconfig.path())
    }

    /// From now on somebody answers whose certificate nobody knows, or the API server again.
    pub(crate) fn is_foreign(&self, is: bool) {
        self.shared.is_foreign.store(is, Ordering::SeqCst);
        for connection in self.shared.open.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn carry(&self, client: TcpStream) {
        let clone = |stream: &TcpStream| stream.try_clone().unwrap();
        self.open.lock().unwrap().push(clone(&client));
        if self.is_foreign.load(Ordering::SeqCst) {
            return pretend(client);
        }
        let server = TcpStream::connect(&self.server).unwrap();
        for stream in [&client, &server] {
            stream.set_read_timeout(self.idle).unwrap();
        }
        let back = (clone(&server), clone(&client));
        let back = std::thread::spawn(move || pass(back.0, back.1));
        pass(client, server);
        back.join().unwrap();
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Shows a certificate that it has made itself.
fn pretend(mut client: TcpStream) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth();
    let chain = vec![made.cert.der().clone()];
    let config = config
        .with_single_cert(chain, PrivateKeyDer::from(key))
        .unwrap();
    let mut tls = rustls::ServerConnection::new(Arc::new(config)).unwrap();
    // It ends with the client's refusal.
    while tls.is_handshaking() && tls.complete_io(&mut client).is_ok() {}
    let _ = client.shutdown(Shutdown::Both);
}
