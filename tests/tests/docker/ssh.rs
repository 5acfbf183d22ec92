//! An engine behind ssh: a real sshd of the test's own, which runs the real
//! `docker system dial-stdio`.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_launcher_docker::{DockerLauncher, Endpoint};
use mcp_lifecycle_core::client::{LifecycleClient, ServerConfig};
use mcp_lifecycle_core::launch::{ErrorChain, LaunchContext, ServerLauncher, ServerSpec};

use crate::support::{Host, LIMIT, Rig, eventually, is_host, without_haste};

const CALLS: &str = "ssh::a_server_behind_ssh_is_called_and_ended";
const KILLED: &str = "ssh::a_killed_host_leaves_nothing_of_a_polite_server_behind_ssh";
const REFUSED: &str = "ssh::what_ssh_says_is_in_the_error";

/// An sshd with a key, a port and a configuration of its own, in the foreground.
pub(crate) struct Sshd {
    child: Child,
    directory: tempfile::TempDir,
    port: u16,
}

impl Sshd {
    /// Starts a server where a login with the test's key has this engine for its default.
    pub(crate) fn start(engine: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(at(key))
                .status();
            assert!(made.unwrap().success());
        }
        std::fs::copy(at("user.pub"), at("authorized")).unwrap();
        // sshd's own, for its part without privileges.
        std::fs::create_dir_all("/run/sshd").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let path = std::env::var("PATH").unwrap();
        let here = directory.path().display();
        let server = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {here}/host\nPidFile none\n\
             AuthorizedKeysFile {here}/authorized\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nPermitRootLogin prohibit-password\n\
             MaxStartups 100\nMaxSessions 100\n\
             SetEnv DOCKER_HOST={engine} PATH={path}\n"
        );
        std::fs::write(at("sshd_config"), server).unwrap();
        let host_key = std::fs::read_to_string(at("host.pub")).unwrap();
        let known = format!("[127.0.0.1]:{port} {host_key}");
        std::fs::write(at("known"), known).unwrap();
        let client = format!(
            "IdentityFile {here}/user\nIdentitiesOnly yes\nUserKnownHostsFile {here}/known\n\
             StrictHostKeyChecking yes\n"
        );
        std::fs::write(at("ssh_config"), client).unwrap();
        // The real ssh, with this configuration instead of the user's.
        let real = which("ssh");
        let script = format!("#!/bin/sh\nexec {real} -F {here}/ssh_config \"$@\"\n");
        std::fs::create_dir(at("bin")).unwrap();
        mcp_lifecycle_conformance::copies::script(&at("bin/ssh"), &script, 0o755).unwrap();
        let child = Command::new(which("sshd"))
            .args(["-D", "-e", "-f"])
            .arg(at("sshd_config"))
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(at("log")).unwrap())
            .spawn()
            .unwrap();
        let sshd = Self {
            child,
            directory,
            port,
        };
        sshd.wait();
        sshd
    }

    /// Until it listens.
    fn wait(&self) {
        let deadline = Instant::now() + LIMIT;
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < deadline, "{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("ssh://{}@127.0.0.1:{}", user(), self.port)
    }

    /// A `PATH` on which `ssh` is the one that knows this sshd.
    pub(crate) fn path(&self) -> String {
        let bin = self.directory.path().join("bin");
        format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
    }

    /// Forgets the user's key: nobody is let in any more.
    fn forget(&self) {
        std::fs::write(self.directory.path().join("authorized"), "").unwrap();
    }

    /// The processes that serve connections.
    fn sessions(&self) -> usize {
        let pid = self.child.id();
        let children = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(children).unwrap();
        children.split_whitespace().count()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The path of a program, also of one that only root has on its path.
fn which(program: &str) -> String {
    let path = std::env::var("PATH").unwrap();
    let mut places = path.split(':').chain(["/usr/sbin"]);
    let found = places.find(|place| Path::new(place).join(program).exists());
    let found = found.unwrap_or_else(|| panic!("missing here: {program}"));
    format!("{found}/{program}")
}

/// The server that a host was told to launch, and by which launcher.
fn told(job: &str) -> (DockerLauncher, ServerSpec) {
    let [url, ledgers, name, alive] = job.split('|').collect::<Vec<_>>()[..] else {
        panic!("{job}");
    };
    let launcher = DockerLauncher::builder()
        .endpoint(Endpoint::from_url(url).unwrap())
        .ledger_directory(ledgers)
        .build()
        .unwrap();
    let directory = alive.trim_start_matches("unix:").trim_end_matches("/s");
    let options = mcp_launcher_docker::ContainerOptions::new("mcp-fixture:test")
        .network("none")
        .bind_writable(directory, directory);
    let spec = ServerSpec::builder(name, "/mcp-fixture").args(["plain", "--alive", alive]);
    (launcher, options.apply(spec).build().unwrap())
}

fn job(rig: &Rig, sshd: &Sshd) -> String {
    let (ledgers, alive) = (rig.ledgers.path().display(), rig.alive.address());
    format!("{}|{ledgers}|{}|{alive}", sshd.url(), rig.server)
}

#[tokio::test]
async fn a_server_behind_ssh_is_called_and_ended() {
    if let Some(job) = is_host() {
        let (launcher, spec) = told(&job);
        let config = ServerConfig::new(Arc::new(launcher), spec).termination(without_haste());
        let client = LifecycleClient::start(config).await;
        let client = client.unwrap_or_else(|error| panic!("{}", ErrorChain(&error)));
        let tools = client.peer().list_all_tools().await.unwrap();
        println!("tools: {}", tools.len());
        let report = client.shutdown().await.unwrap();
        return println!("ended: {report}");
    }
    let Some(rig) = Rig::new("ssh") else {
        return;
    };
    let sshd = Sshd::start(&rig.engine.host);
    let path = [("PATH", &*sshd.path())];
    let said = Host::start_with(CALLS, &job(&rig, &sshd), &path).output();
    assert!(said.contains("tools: "), "{said}\n{}", sshd.log());
    assert!(!said.contains("tools: 0"), "{said}");
    assert!(said.contains("ended: "), "{said}\n{}", sshd.log());
    rig.assert_clean().await;
    eventually("no session of ssh is left", || sshd.sessions() == 0).await;
}

#[tokio::test]
async fn a_killed_host_leaves_nothing_of_a_polite_server_behind_ssh() {
    if let Some(job) = is_host() {
        let (launcher, spec) = told(&job);
        let _server = launcher.launch(&spec, &LaunchContext::new()).await.unwrap();
        println!("launched");
        return std::future::pending().await;
    }
    let Some(rig) = Rig::new("ssh-killed") else {
        return;
    };
    let sshd = Sshd::start(&rig.engine.host);
    let path = [("PATH", &*sshd.path())];
    let mut host = Host::start_with(KILLED, &job(&rig, &sshd), &path);
    host.wait_for("launched");
    assert_eq!(rig.containers().len(), 1);
    host.kill();
    rig.assert_clean().await;
    eventually("no session of ssh is left", || sshd.sessions() == 0).await;
}

#[tokio::test]
async fn what_ssh_says_is_in_the_error() {
    if let Some(job) = is_host() {
        let (launcher, spec) = told(&job);
        let error = launcher
            .launch(&spec, &LaunchContext::new())
            .await
            .unwrap_err();
        return println!("refused: {}", ErrorChain(&error));
    }
    let Some(rig) = Rig::new("ssh-refused") else {
        return;
    };
    let sshd = Sshd::start(&rig.engine.host);
    sshd.forget();
    let path = [("PATH", &*sshd.path())];
    let said = Host::start_with(REFUSED, &job(&rig, &sshd), &path).output();
    assert!(said.contains("refused: "), "{said}");
    assert!(said.contains("Permission denied (publickey"), "{said}");
    assert!(said.contains(&sshd.url()), "{said}");
    eventually("no session of ssh is left", || sshd.sessions() == 0).await;
}
