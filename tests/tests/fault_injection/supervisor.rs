//! One experiment: a host of which the n-th call fails, and what is left.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use mcp_launcher_local::Isolation;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use crate::faults;
use crate::host::{self, Way};
use crate::seccomp::{self, Call, Listener};

/// Far more than any step takes; reached only by a failure.
const LIMIT: Duration = Duration::from_secs(20);

/// Whose calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// All threads of the host.
    Host,
    /// The guardian's program: from its birth to the server's exec.
    Guardian,
}

/// What fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) target: Target,
    /// Counted from 0; of the calls that can fail.
    pub(crate) call: usize,
    /// Which of the plausible errors, counted around.
    pub(crate) error: usize,
    /// Instead of one call, all calls with this number are refused.
    pub(crate) denied: Option<libc::c_long>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The call that failed and its error; `None` if there were not so many calls.
    pub(crate) injected: Option<String>,
    /// How many errors are plausible for it.
    pub(crate) errors: usize,
    /// What the host said.
    pub(crate) said: Vec<String>,
    /// What must not be.
    pub(crate) wrong: Vec<String>,
    pub(crate) census: BTreeMap<String, usize>,
}

/// Who makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    Host,
    Guardian,
    /// The server's program, which is no concern of ours.
    Server,
}

struct Run {
    host: Pid,
    isolation: Isolation,
    listener: Listener,
    channel: UnixStream,
    /// End of file when nobody of a server lives.
    alive: File,
    fault: Option<Fault>,
    counting: bool,
    count: usize,
    callers: HashMap<u32, Caller>,
    line: Vec<u8>,
    outcome: Outcome,
    clean: Option<BTreeMap<String, usize>>,
    settle: Option<Instant>,
}

/// Runs one host. `directory` has the fifos; `clean` is what a host without a
/// fault holds at its end.
pub(crate) fn run(
    isolation: Isolation,
    way: Way,
    fault: Option<Fault>,
    directory: &Path,
    clean: Option<BTreeMap<String, usize>>,
) -> Outcome {
    let (channel, theirs) = UnixStream::pair().unwrap();
    let fifo = |name: &str| {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        options.open(directory.join(name)).unwrap()
    };
    let alive = fifo("alive");
    let Some(host) = seccomp::fork() else {
        drop((channel, alive));
        seccomp::put_channel(&theirs);
        drop(theirs);
        let listener = seccomp::install().unwrap();
        let mut channel = seccomp::channel();
        let number = std::os::fd::AsRawFd::as_raw_fd(&listener);
        channel.write_all(&number.to_le_bytes()).unwrap();
        channel.read_exact(&mut [0]).unwrap();
        drop(listener);
        host::play(isolation, way, directory)
    };
    drop(theirs);
    let mut channel = channel;
    let mut number = [0; 4];
    channel.read_exact(&mut number).unwrap();
    let listener = Listener::take(host.as_raw(), i32::from_le_bytes(number)).unwrap();
    channel.write_all(b".").unwrap();
    channel.set_nonblocking(true).unwrap();
    let mut run = Run {
        host,
        isolation,
        listener,
        channel,
        alive,
        fault,
        counting: false,
        count: 0,
        callers: HashMap::new(),
        line: Vec::new(),
        outcome: Outcome::default(),
        clean,
        settle: None,
    };
    run.until_the_end();
    run.after_the_end()
}

impl Run {
    fn until_the_end(&mut self) {
        while let Some(line) = self.next_line() {
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            self.outcome.said.push(line.clone());
            match word {
                "begin" => self.counting = true,
                "contained" => {}
                // Proof, and an error of a launch, mean that nothing lives now.
                "gone" | "failed" => {
                    self.counting = false;
                    self.nothing_lives_now(&line);
                    self.nothing_is_left(&line);
                }
                "unproven" | "dropped" => {
                    // What comes of it is still under way.
                    self.nothing_is_left(&line);
                    self.counting = false;
                }
                "next" => {
                    if rest != "gone" {
                        self.wrong(format!("the next launch: {rest}"));
                    }
                    self.nothing_is_left(&line);
                }
                "census" => {
                    self.outcome.census = serde_json::from_str(rest).unwrap();
                    let settled = *self.settle.get_or_insert_with(|| Instant::now() + LIMIT);
                    if self.leaks().is_empty() || Instant::now() >= settled {
                        let leaks = self.leaks();
                        self.outcome.wrong.extend(leaks);
                        let _ = self.channel.write_all(b".");
                        return;
                    }
                    self.outcome.said.pop();
                    let _ = self.channel.write_all(&[host::AGAIN]);
                    continue;
                }
                _ => self.wrong(line.clone()),
            }
            let _ = self.channel.write_all(b".");
        }
    }

    /// The host is killed, if it has not ended, and its guardians see to the rest.
    fn after_the_end(mut self) -> Outcome {
        let _ = kill(self.host, Signal::SIGKILL);
        let deadline = Instant::now() + LIMIT;
        // Answered meanwhile: without answers there are no system calls any more.
        while !self.others().is_empty() && Instant::now() < deadline {
            self.serve(Duration::from_millis(1));
        }
        let _ = waitpid(self.host, None);
        // What a killed one has started comes here next.
        loop {
            let others = self.others();
            if others.is_empty() {
                break;
            }
            for (pid, name) in others {
                self.wrong(format!("outlived its host: {name} ({pid})"));
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                let _ = waitpid(Pid::from_raw(pid), None);
            }
        }
        drop(self.listener);
        while waitpid(None, None).is_ok() {}
        self.outcome
    }

    /// Kinds of descriptors of which there are more than without a fault.
    fn leaks(&self) -> Vec<String> {
        let Some(clean) = &self.clean else {
            return Vec::new();
        };
        let more = self.outcome.census.iter().filter_map(|(kind, count)| {
            let before = clean.get(kind).copied().unwrap_or(0);
            (*count > before)
                .then(|| format!("{count} descriptors of {kind}, {before} without a fault"))
        });
        more.collect()
    }

    fn wrong(&mut self, what: String) {
        self.outcome.wrong.push(what);
    }

    /// What the host says next; `None` once it has died or hangs.
    fn next_line(&mut self) -> Option<String> {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.line.drain(..=end).collect();
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if Instant::now() >= deadline {
                let threads = threads_of(self.host);
                self.wrong(format!("the host hangs: {threads}"));
                return None;
            }
            self.serve(Duration::from_millis(200));
            let mut buffer = [0; 4096];
            match self.channel.read(&mut buffer) {
                Ok(0) => {
                    self.wrong("the host has died".to_owned());
                    return None;
                }
                Ok(length) => self.line.extend(&buffer[..length]),
                Err(_) => {}
            }
        }
    }

    /// Answers one call, if one comes in time.
    fn serve(&mut self, limit: Duration) {
        let ready = {
            let mut fds = [
                PollFd::new(self.listener.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.channel.as_fd(), PollFlags::POLLIN),
            ];
            let _ = poll(&mut fds, PollTimeout::try_from(limit).unwrap());
            fds[0].revents().unwrap_or(PollFlags::empty())
        };
        if ready.contains(PollFlags::POLLIN)
            && let Some(call) = self.listener.receive()
        {
            let fault = self.fault_of(&call);
            self.listener.answer(call, fault);
        }
    }

    fn fault_of(&mut self, call: &Call) -> Option<i32> {
        let caller = self.caller(call);
        let fault = self.fault.filter(|_| self.counting)?;
        if fault.denied == Some(call.number)
            && caller != Caller::Server
            && !faults::plausible(call).is_empty()
        {
            self.outcome.injected = Some(format!("{}: refused", faults::name(call.number)));
            return Some(libc::EPERM);
        }
        let wanted = match fault.target {
            Target::Host => Caller::Host,
            Target::Guardian => Caller::Guardian,
        };
        let errors = faults::plausible(call);
        if caller != wanted || errors.is_empty() || self.is_of_the_runtime(call) {
            return None;
        }
        if fault.denied.is_some() {
            return None;
        }
        let number = self.count;
        self.count += 1;
        if number != fault.call {
            return None;
        }
        let errno = errors[fault.error % errors.len()];
        self.outcome.errors = errors.len();
        self.outcome.injected = Some(format!(
            "{}: {}",
            faults::name(call.number),
            nix::errno::Errno::from_raw(errno)
        ));
        Some(errno)
    }

    /// Whether Tokio makes this call to wake itself, or a panic to be seen:
    /// without these no program could go on, whoever launches servers.
    fn is_of_the_runtime(&self, call: &Call) -> bool {
        if call.number != libc::SYS_read && call.number != libc::SYS_write {
            return false;
        }
        let fd = call.args[0];
        let target = fs::read_link(format!("/proc/{}/fd/{fd}", call.thread));
        let target = target.unwrap_or_default();
        (call.number == libc::SYS_write
            && fd < 3
            && self.callers.get(&call.thread) == Some(&Caller::Host))
            || target.to_str() == Some("anon_inode:[eventfd]")
    }

    fn caller(&mut self, call: &Call) -> Caller {
        let caller = match self.callers.get(&call.thread) {
            Some(&caller) => caller,
            None => self.who_is(call.thread),
        };
        let mut next = caller;
        if call.number == libc::SYS_execve && caller == Caller::Guardian {
            // The host's child becomes the guardian; a guardian's child the server.
            let guarded = self.isolation != Isolation::ProcessGroup;
            if !(guarded && parent_of(call.thread) == Some(self.host.as_raw())) {
                next = Caller::Server;
            }
        }
        self.callers.insert(call.thread, next);
        caller
    }

    fn who_is(&self, thread: u32) -> Caller {
        match status(thread, "Tgid:") {
            Some(process) if process == self.host.as_raw() => Caller::Host,
            // A child of the server's program is the server's.
            _ => match parent_of(thread).and_then(|p| self.callers.get(&p.unsigned_abs())) {
                Some(Caller::Server) => Caller::Server,
                _ => Caller::Guardian,
            },
        }
    }

    /// Nobody holds the fifo, and there is no process but the host, now.
    fn nothing_lives_now(&mut self, line: &str) {
        let living: Vec<_> = self
            .others()
            .into_iter()
            .filter(|(_, name)| !name.ends_with(" Z"))
            .collect();
        if self.fifo_is_held() || !living.is_empty() {
            self.wrong(format!("`{line}`, while these live: {living:?}"));
        }
    }

    /// The same, and no zombie, in time.
    fn nothing_is_left(&mut self, line: &str) {
        let deadline = Instant::now() + LIMIT;
        while self.fifo_is_held() || !self.others().is_empty() {
            if Instant::now() >= deadline {
                let others = self.others();
                return self.wrong(format!("after `{line}` there are {others:?}"));
            }
            self.serve(Duration::from_millis(1));
        }
    }

    fn fifo_is_held(&mut self) -> bool {
        // Nothing is ever written: it is empty, or has no writer.
        self.alive.read(&mut [0]).is_err()
    }

    /// Children of the host, and orphans of theirs, which are children of ours.
    fn others(&self) -> Vec<(i32, String)> {
        let host = self.host.as_raw();
        let mut others = children_of(host.unsigned_abs());
        for (pid, name) in children_of(std::process::id()) {
            // Orphans without a guardian are ours to reap, as they are init's elsewhere.
            let is_over = || name.ends_with(" Z") && waitpid(Pid::from_raw(pid), None).is_ok();
            if pid != host && !is_over() {
                others.push((pid, name));
            }
        }
        others
    }
}

/// The children of a process, of all of its threads: with name and state.
fn children_of(pid: u32) -> Vec<(i32, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let lists = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids: Vec<i32> = lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect();
    let describe = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let name = stat.split_once('(')?.1.rsplit_once(')')?;
        let state = name.1.split_whitespace().next()?;
        Some((pid, format!("{} {state}", name.0)))
    };
    pids.into_iter().filter_map(describe).collect()
}

fn status(pid: u32, field: &str) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().parse().ok()
}

fn parent_of(pid: u32) -> Option<i32> {
    status(pid, "PPid:")
}

/// What each thread of a host that hangs is doing.
fn threads_of(host: Pid) -> String {
    let tasks = fs::read_dir(format!("/proc/{host}/task"))
        .into_iter()
        .flatten();
    let lines = tasks.flatten().map(|task| {
        let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        format!("{}: {}", read("comm").trim(), read("syscall").trim())
    });
    lines.collect::<Vec<_>>().join("; ")
}
