//! TLS: the daemon's certificate, its renewal, and certificates of clients.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::prelude::*;

/// PEM files of a directory that lives as long as this.
struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file that only its owner can read.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        // Beside and renamed, as whoever renews a certificate does.
        let (path, new) = (self.path(name), self.path("new"));
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::rename(&new, &path).unwrap();
        path
    }

    /// A self-signed certificate for loopback, as `cert.pem` and `key.pem`.
    fn self_signed(&self) -> [PathBuf; 2] {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        [
            self.write("cert.pem", &made.cert.pem()),
            self.write("key.pem", &made.signing_key.serialize_pem()),
        ]
    }

    /// An authority, and a certificate that it has signed.
    fn signed_by_an_authority(&self, name: &str) -> [PathBuf; 3] {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let signed = params.signed_by(&key, &issuer).unwrap();
        [
            self.write(&format!("{name}-ca.pem"), &authority.pem()),
            self.write(&format!("{name}.pem"), &signed.pem()),
            self.write(&format!("{name}-key.pem"), &key.serialize_pem()),
        ]
    }
}

fn args<'a>(address: &'a str, cert: &'a Path, key: &'a Path) -> Vec<&'a str> {
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    vec!["--listen", address, "--tls-cert", cert, "--tls-key", key]
}

async fn serve(cert: &Path, key: &Path, more: &[&str]) -> Peer {
    let args = [args("wss://127.0.0.1:0", cert, key), more.to_vec()].concat();
    listen(DAEMON, &args).await
}

async fn connects(config: &ExecServerConfig) -> bool {
    within(ExecutorLauncher::connect(config.clone()))
        .await
        .is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_ones_own_carries_a_server_and_a_stranger_is_not_trusted() {
    let files = Files::new();
    let [cert, key] = files.self_signed();
    let peer = serve(&cert, &key, &[]).await;
    let config = ExecutorLauncher::websocket(&peer.url);
    assert!(!connects(&config).await, "nobody vouches for it");
    let insecure = peer.url.replace("wss://", "ws://");
    assert!(
        !connects(&ExecutorLauncher::websocket(insecure)).await,
        "no TLS"
    );

    let launcher = launcher(config.trust(cert)).await;
    let mut server = launch(&launcher, sh("exec cat")).await;
    let data = vec![b'x'; 1_000_000];
    let Server { stdin, stdout, .. } = &mut server;
    let mut back = vec![0; data.len()];
    let both = async { tokio::join!(stdin.write_all(&data), stdout.read_exact(&mut back)) };
    let (written, read) = within(both).await;
    written.unwrap();
    read.unwrap();
    assert!(back == data, "the bytes came back changed");
    // The proof of its end is given time.
    let policy = without_haste().straggler_grace(Duration::from_secs(30));
    let report = server.end(&policy).await.unwrap();
    assert_eq!(report.exit, ExitStatus::Code(0), "{report}");
    assert_eq!(report.gone.swept_count, 0, "{report}");
}

/// The one mistake with URLs that everybody makes.
#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_scheme_is_what_the_error_is_about() {
    let files = Files::new();
    let [cert, key] = files.self_signed();
    let secure = serve(&cert, &key, &[]).await;
    let plain = daemon(&[]).await;
    for (url, hint) in [
        (secure.url.replace("wss://", "ws://"), "wss://"),
        (plain.url.replace("ws://", "wss://"), "ws://"),
    ] {
        let config = ExecutorLauncher::websocket(url);
        let error = within(ExecutorLauncher::connect(config)).await.unwrap_err();
        let text = mcp_lifecycle_core::ErrorChain(&error).to_string();
        println!("{text}");
        let said = text.rsplit_once(": ").unwrap().1;
        assert!(said.contains(&format!("try {hint}")), "{text}");
        assert!(text.len() < 250, "{text}");
    }
}

#[tokio::test]
async fn files_that_are_of_no_use_are_named() {
    let files = Files::new();
    let [cert, key] = files.self_signed();
    let secure = "wss://127.0.0.1:0";
    refuses(&["--listen", secure], "--tls-cert").await;
    refuses(&args("ws://127.0.0.1:0", &cert, &key), "wss://").await;
    refuses(
        &args(secure, &key, &cert),
        "key.pem: there is no certificate in it",
    )
    .await;
    refuses(
        &args(secure, &cert, &cert),
        "cert.pem: there is no private key in it",
    )
    .await;
    refuses(&args(secure, &cert, &files.path("none")), "none: ").await;
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).unwrap();
    refuses(&args(secure, &cert, &key), "chmod 600").await;

    let config = ExecutorLauncher::websocket("wss://127.0.0.1:1").trust(files.path("none"));
    let error = within(ExecutorLauncher::connect(config)).await.unwrap_err();
    let error = mcp_lifecycle_core::launch::ErrorChain(&error).to_string();
    // Nobody listens there either; what is wrong with the file is said first.
    assert!(error.contains("none: "), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_needs_no_restart() {
    let files = Files::new();
    let [cert, key] = files.self_signed();
    let peer = serve(&cert, &key, &[]).await;
    let earlier = files.write("earlier.pem", &std::fs::read_to_string(&cert).unwrap());
    let config = ExecutorLauncher::websocket(&peer.url);
    let launcher = launcher(config.clone().trust(&earlier)).await;
    let mut server = launch(&launcher, sh("exec cat")).await;

    // Half of a renewal: the earlier pair holds.
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    files.write("cert.pem", &made.cert.pem());
    assert!(connects(&config.clone().trust(&earlier)).await);
    assert!(!connects(&config.clone().trust(&cert)).await);
    files.write("key.pem", &made.signing_key.serialize_pem());
    assert!(connects(&config.clone().trust(&cert)).await);
    assert!(!connects(&config.trust(&earlier)).await);

    // Those that exist go on.
    server.stdin.write_all(b"still here\n").await.unwrap();
    assert_eq!(server.line().await, "still here");
    server.end(&without_haste()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_clients_with_a_certificate_of_the_authority_get_in() {
    let files = Files::new();
    let [cert, key] = files.self_signed();
    let [authority, own, own_key] = files.signed_by_an_authority("client");
    let [_, other, other_key] = files.signed_by_an_authority("stranger");
    let more = ["--tls-client-ca", authority.to_str().unwrap()];
    let peer = serve(&cert, &key, &more).await;
    let config = ExecutorLauncher::websocket(&peer.url).trust(&cert);
    assert!(!connects(&config).await, "without a certificate");
    assert!(!connects(&config.clone().identity(other, other_key)).await);
    let launcher = launcher(config.identity(own, own_key)).await;
    let server = launch(&launcher, sh("exec cat")).await;
    server.end(&without_haste()).await.unwrap();
}
