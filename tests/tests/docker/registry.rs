//! A real registry.

use std::io::{BufRead, BufReader};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::Engine;

/// In base64 its header has a `/`, which is another character in the alphabet that the engine reads.
pub(crate) const PASSWORD: &str = "a?b>~c?~";
const USER_AND_PASSWORD: &str = "dTphP2I+fmM/fg==";
const HASHED: &str = "$2b$04$5Ecq/A3AGtRbFQsc0KxNce3NFuMaZFC1RVjTdEYZQkrv09QsJKmh6";

/// Debian's `docker-registry`.
pub(crate) struct Registry {
    child: Child,
    pub(crate) address: String,
    directory: tempfile::TempDir,
}

impl Registry {
    /// Starts one that lets all users in.
    pub(crate) fn start() -> Self {
        Self::with(false)
    }

    /// Starts one that lets one user in.
    pub(crate) fn private() -> Self {
        Self::with(true)
    }

    fn with(is_private: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("users"), format!("u:{HASHED}\n")).unwrap();
        let users = at("users").display().to_string();
        let auth = match is_private {
            true => format!("auth: {{htpasswd: {{realm: mcp, path: {users}}}}}"),
            false => String::new(),
        };
        let config = format!(
            "version: 0.1\nlog: {{level: info}}\nhttp: {{addr: '127.0.0.1:0'}}\n\
             storage: {{filesystem: {{rootdir: {}}}}}\n{auth}\n",
            at("data").display(),
        );
        std::fs::write(at("config.yml"), config).unwrap();
        let mut child = Command::new("docker-registry")
            .arg("serve")
            .arg(at("config.yml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("docker-registry is installed by tests/containers");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once("listening on ")?;
            let address = rest.split(['"', ' ', ',']).next()?;
            Some(address.to_owned())
        });
        // Its log has to be read for as long as it lives.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            address: address.expect("it says where it listens"),
            directory,
        }
    }

    /// Another address of it, at which each connection is carried on only after so long.
    pub(crate) fn behind_a_slow_line(&self, time: Duration) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let slow = listener.local_addr().unwrap().to_string();
        let registry = self.address.clone();
        // Ends with the test process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let registry = registry.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(time);
                    let registry = TcpStream::connect(registry).unwrap();
                    let (from, to) = (client.try_clone().unwrap(), registry.try_clone().unwrap());
                    std::thread::spawn(move || carry(from, to));
                    carry(registry, client);
                });
            }
        });
        slow
    }

    /// Writes a configuration of the docker CLI, and returns its directory.
    pub(crate) fn configure(&self, config: &serde_json::Value) -> &str {
        let path = self.directory.path();
        std::fs::write(path.join("config.json"), config.to_string()).unwrap();
        path.to_str().unwrap()
    }

    /// The configuration after a `docker login`.
    pub(crate) fn login(&self) -> serde_json::Value {
        serde_json::json!({"auths": {&self.address: {"auth": USER_AND_PASSWORD}}})
    }

    /// Writes the program that `credHelpers` call `mcp-test`.
    pub(crate) fn helper(&self, script: &str) {
        let program = self.directory.path().join("docker-credential-mcp-test");
        let text = format!("#!/bin/sh\n{script}\n");
        mcp_lifecycle_conformance::copies::script(&program, &text, 0o755).unwrap();
    }

    /// Puts the fixture there under this name, and nowhere else.
    pub(crate) fn push(&self, engine: &Engine, name: &str) {
        let name = format!("{}/{name}", self.address);
        let config = self.configure(&self.login());
        engine.docker(&["tag", "mcp-fixture:test", &name]);
        engine.docker(&["--config", config, "push", "-q", &name]);
        engine.docker(&["rmi", &name]);
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
