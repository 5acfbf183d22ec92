//! `mcp-contain` in front of servers that start containers: however the host's side ends, none is left.

mod host;
mod kills;
mod options;
mod podman;

use mcp_lifecycle_core::launch::ServerSpec;

use crate::support::{LIMIT, Rig, eventually};
use host::Host;
pub(crate) use host::mcp_contain;

/// How a server starts a container that ignores the end of its input and SIGTERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// It is `docker run` itself.
    Direct,
    /// The same, without `--rm`.
    Kept,
    /// By a shell, that stays.
    Shell,
    /// By a program of npm's in Node, whose command line names an engine in the name of a package.
    Npx,
    /// It does not wait for it.
    Detached,
}

const SHAPES: [Shape; 5] = [
    Shape::Direct,
    Shape::Kept,
    Shape::Shell,
    Shape::Npx,
    Shape::Detached,
];

const NODE: &str = r#"#!/usr/bin/env node
require("child_process").spawn("sh", ["-c", "docker run -i --rm $RUN $PAYLOAD; true"], {stdio: "inherit"})"#;

impl Shape {
    fn server(self, rig: &Rig) -> ServerSpec {
        let words = |line: &str| {
            let wrapped = rig.wrapped("docker", &[]);
            let mut words: Vec<String> = Vec::new();
            for word in line.split(' ') {
                let named = wrapped
                    .env()
                    .literals()
                    .find(|(name, _)| word.strip_prefix('$') == name.to_str());
                match named {
                    Some((_, value)) => {
                        words.extend(value.to_str().unwrap().split(' ').map(str::to_owned))
                    }
                    None => words.push(word.to_owned()),
                }
            }
            let args: Vec<_> = words.iter().skip(1).map(String::as_str).collect();
            rig.wrapped(&words[0], &args)
        };
        match self {
            Self::Direct => words("docker run -i --rm $RUN $PAYLOAD"),
            Self::Kept => words("docker run -i $RUN $PAYLOAD"),
            Self::Shell => rig.wrapped("sh", &["-c", "docker run -i --rm $RUN $PAYLOAD; true"]),
            Self::Npx => {
                let program = executable(rig, "npx", NODE);
                rig.wrapped(&program, &["-y", "@somebody/mcp-server-docker"])
            }
            Self::Detached => rig.wrapped(
                "sh",
                &["-c", "docker run -d --rm $RUN $PAYLOAD; exec sleep 1000"],
            ),
        }
    }
}

fn executable(rig: &Rig, name: &str, text: &str) -> String {
    let path = rig.ledgers.path().join(name);
    mcp_lifecycle_conformance::copies::script(&path, text, 0o755).unwrap();
    path.display().to_string()
}

/// Somebody's container, which is to be there afterwards. On drop it is removed.
struct Stranger<'a> {
    rig: &'a Rig,
    id: String,
}

impl<'a> Stranger<'a> {
    fn start(rig: &'a Rig) -> Self {
        let run = ["run", "-d", "--rm", "--network", "none", "mcp-fixture:test"];
        let id = rig.engine.docker(
            &[
                &run[..],
                &["/bin/sh", "-c", "sleep 1000 || read x </dev/zero"],
            ]
            .concat(),
        );
        Self { rig, id }
    }

    fn assert_runs(&self) {
        let running = self
            .rig
            .engine
            .docker(&["inspect", "-f", "{{.State.Running}}", &self.id]);
        assert_eq!(running, "true", "a stranger's container");
    }
}

impl Drop for Stranger<'_> {
    fn drop(&mut self) {
        let _ = self.rig.engine.command(&["rm", "-f", &self.id]).output();
    }
}

/// A server whose container runs.
async fn start(rig: &Rig, options: &[&str], server: &ServerSpec) -> Host {
    assert_eq!(rig.started(), Vec::<String>::new(), "before");
    let options = [&["--grace", "300ms"], options].concat();
    let host = Host::start(rig, &options, server).await;
    rig.alive.accept("server", LIMIT).await.unwrap();
    assert_eq!(rig.started().len(), 1);
    host
}

/// Nothing of it is left: no container, no process, no record.
async fn nothing_is_left(rig: &Rig, host: &Host) {
    eventually("no container is left", || rig.started().is_empty()).await;
    rig.alive.expect_all_dead(LIMIT).await.unwrap();
    eventually("no process is left", || host.processes().is_empty()).await;
    // A killed shim leaves its empty cgroup to whoever comes next, which no test judges here.
    host::verb(rig, &["reap"]);
}
