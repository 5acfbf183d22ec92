//! A process that the supervisor has started, and talks to by lines.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Check;

/// A host, a reaper, or a process of the fixture.
///
/// # Drop
///
/// Kills and reaps it.
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<(Instant, String)>,
    /// Everything it said.
    pub(crate) said: Vec<String>,
}

impl Process {
    /// Starts it; `hear` is called with each line as it comes, on a thread of its own.
    pub(crate) fn start(
        command: &mut Command,
        mut hear: impl FnMut(&str) + Send + 'static,
    ) -> Check<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let (tell, lines) = mpsc::channel();
        let stdin = child.stdin.take();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    hear(&line);
                    if tell.send((Instant::now(), line)).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self {
            child,
            stdin,
            lines,
            said: Vec::new(),
        })
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Waits for a line that begins with this word, and says when it came and
    /// how it goes on; `None` when the process has nothing more to say.
    pub(crate) fn hear(&mut self, word: &str, limit: Duration) -> Check<Option<(Instant, String)>> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok((when, line)) => {
                    self.said.push(line.clone());
                    let (first, rest) = line.split_once(' ').unwrap_or((&line, ""));
                    if first == word {
                        return Ok(Some((when, rest.to_owned())));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {
                    let said = self.said.join("\n    ");
                    return Err(format!(
                        "wedged: no {word:?} within {limit:?}\n{}\n  it said:\n    {said}",
                        threads_of(self.pid())
                    ));
                }
            }
        }
    }

    /// Answers a question of its.
    pub(crate) fn answer(&mut self, text: &str) {
        if let Some(stdin) = &mut self.stdin {
            // One that has died is noticed where it is heard.
            let _ = writeln!(stdin, "{text}");
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // Exact: it is a child of ours, which only `end` reaps.
        let _ = kill(self.pid(), signal);
    }

    /// Lets it go, waits for its end, and says how it went.
    pub(crate) fn end(&mut self, limit: Duration) -> Check<std::process::ExitStatus> {
        drop(self.stdin.take());
        let end = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(1)),
                Ok(None) => return Err(format!("it does not exit\n{}", threads_of(self.pid()))),
                Err(error) => return Err(format!("cannot wait: {error}")),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the threads of a process are, for a report.
pub(crate) fn threads_of(pid: Pid) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let describe = |task: fs::DirEntry| {
        let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let stat = read("stat");
        let state = stat.rsplit(") ").next().unwrap_or_default();
        let state: Vec<_> = state.split(' ').take(7).collect();
        format!(
            "  thread {} in {}, {}",
            read("comm").trim(),
            read("wchan").trim(),
            state.join(" "),
        )
    };
    tasks.map(describe).collect::<Vec<_>>().join("\n")
}

/// The guardians of a host, by pid.
pub(crate) fn guardians_of(host: Pid) -> Vec<Pid> {
    children_of(host)
        .into_iter()
        .filter(|(_, name, state)| name == "mcp-guardian" && *state != 'Z')
        .map(|(pid, _, _)| pid)
        .collect()
}

/// Whether that process is there and is no zombie, also not one without a first
/// thread: then whoever holds what it held has to answer.
pub(crate) fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map_or("Z", |(_, tail)| tail);
    !state.starts_with(['Z', 'X'])
}

/// Whether a process is none of the iteration whose cgroups are below `base`: it is in
/// another cgroup and in another PID namespace, or has gone.
pub(crate) fn is_stranger(pid: u32, base: &Path) -> bool {
    let has_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid"));
    let is_elsewhere = match fs::read_to_string(format!("/proc/{pid}/cgroup")) {
        Ok(cgroups) => !cgroups
            .split(['/', '\n'])
            .any(|part| Some(part.as_ref()) == base.file_name()),
        Err(error) => has_gone(&error),
    };
    let is_abroad = match (namespace(&pid.to_string()), namespace("self")) {
        (Ok(its), Ok(own)) => its != own,
        (Err(error), _) => has_gone(&error),
        (_, Err(_)) => false,
    };
    is_elsewhere && is_abroad
}

/// Whether the number is still a guardian's.
pub(crate) fn is_guardian(pid: Pid) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "mcp-guardian\n")
}

/// The children of a process: pid, name, state.
pub(crate) fn children_of(parent: Pid) -> Vec<(Pid, String, char)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let child = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (head, tail) = stat.rsplit_once(") ")?;
        let (pid, name) = head.split_once(" (")?;
        let mut tail = tail.split(' ');
        let state = tail.next()?.chars().next()?;
        let is_child = tail.next()?.parse() == Ok(parent.as_raw());
        is_child.then_some((Pid::from_raw(pid.parse().ok()?), name.to_owned(), state))
    };
    let numbered = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_str()
            .is_some_and(|name| name.parse::<u32>().is_ok())
    });
    numbered.filter_map(child).collect()
}

/// How many descriptors of each kind a process has.
pub(crate) fn descriptors_of(pid: Pid) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"));
    let mut kinds: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .map(|target| {
            let target = target.to_string_lossy().into_owned();
            match target.split_once(":[") {
                Some((kind @ ("socket" | "pipe"), _)) => kind.to_owned(),
                _ => target,
            }
        })
        .collect();
    kinds.sort();
    kinds
}
