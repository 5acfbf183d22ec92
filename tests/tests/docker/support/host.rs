//! A host in a process of its own, started only to be killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

const ROLE: &str = "MCP_DOCKER_TEST_HOST";

/// Whether this process was started as the host of this test.
pub(crate) fn is_host() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// A running host.
pub(crate) struct Host(Child);

impl Host {
    /// Runs the test `name` of this binary as a host that is told `what` to do.
    pub(crate) fn start(name: &str, what: &str) -> Self {
        Self::start_with(name, what, &[])
    }

    /// The same, with these variables in its environment.
    pub(crate) fn start_with(name: &str, what: &str, variables: &[(&str, &str)]) -> Self {
        Self::spawn(name, what, variables, Stdio::null())
    }

    fn spawn(name: &str, what: &str, variables: &[(&str, &str)], stdin: Stdio) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture", "--include-ignored"])
            .env(ROLE, what)
            .envs(variables.iter().copied())
            .stdin(stdin)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// The same, with an input for [`tell`](Self::tell).
    pub(crate) fn start_told(name: &str, what: &str) -> Self {
        Self::spawn(name, what, &[], Stdio::piped())
    }

    /// Says a line to it.
    pub(crate) fn tell(&mut self, line: &str) {
        let stdin = self.0.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
    }

    /// Waits until it has printed a line that ends so.
    pub(crate) fn wait_for(&mut self, line: &str) {
        let stdout = self.0.stdout.take().unwrap();
        let mut lines = BufReader::new(stdout).lines();
        let found = lines.any(|found| found.is_ok_and(|found| found.ends_with(line)));
        assert!(found, "the host ended without {line:?}");
    }

    /// Waits for its end: all that it has printed.
    pub(crate) fn output(mut self) -> String {
        let stdout = self.0.stdout.take().unwrap();
        let text = std::io::read_to_string(stdout).unwrap();
        self.0.wait().unwrap();
        text
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait(&mut self) {
        self.0.wait().unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
