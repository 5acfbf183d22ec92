//! A host in a process of its own, started only to be killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

pub(crate) const ROLE: &str = "MCP_DOCKER_TEST_HOST";

/// Whether this process was started as the host of this test.
pub(crate) fn is_host() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// A running host. Its output stays open: a test that cannot print its result fails.
pub(crate) struct Host {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

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
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture", "--include-ignored"])
            .env(ROLE, what)
            .envs(variables.iter().copied())
            .stdin(stdin)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// The same, with an input for [`tell`](Self::tell).
    pub(crate) fn start_told(name: &str, what: &str) -> Self {
        Self::spawn(name, what, &[], Stdio::piped())
    }

    /// Says a line to it.
    pub(crate) fn tell(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
    }

    /// Waits until it has printed a line that ends so.
    pub(crate) fn wait_for(&mut self, line: &str) {
        let mut lines = self.stdout.by_ref().lines();
        let found = lines.any(|found| found.is_ok_and(|found| found.ends_with(line)));
        assert!(found, "the host ended without {line:?}");
    }

    /// Waits for its end: all that it has printed.
    pub(crate) fn output(mut self) -> String {
        let text = std::io::read_to_string(&mut self.stdout).unwrap();
        self.child.wait().unwrap();
        text
    }

    /// Its processes that remove its containers when it has died.
    pub(crate) fn last_wills(&self) -> Vec<u32> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let lists = threads.flatten().filter_map(|thread| {
            let list = std::fs::read_to_string(thread.path().join("children")).ok()?;
            let pids: Vec<u32> = list.split(' ').filter_map(|pid| pid.parse().ok()).collect();
            Some(pids)
        });
        lists.flatten().filter(|&pid| is_last_will(pid)).collect()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait(&mut self) {
        self.child.wait().unwrap();
    }
}

/// Returns whether this process is a last will, and lives.
pub(crate) fn is_last_will(pid: u32) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = command.split(|&byte| byte == 0);
    words.any(|word| word == b"--last-will")
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
