//! One experiment: a host of which the n-th call fails, and what is left.

use std::collections::BTreeMap;
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

use crate::host::{self, Way};
use crate::injector::{Fault, Injected, Injector};
use crate::processes::{children_of, threads_of};
use crate::seccomp::{self, Listener};
use crate::stage::STATE;

/// Far more than any step takes; reached only by a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// The outcome of one run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) injected: Injected,
    /// The lines that the host said.
    pub(crate) said: Vec<String>,
    /// Findings that must not be.
    pub(crate) wrong: Vec<String>,
    pub(crate) census: BTreeMap<String, usize>,
}

struct Run {
    host: Pid,
    listener: Listener,
    channel: UnixStream,
    /// End of file when nobody of a server lives.
    alive: File,
    injector: Injector,
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
    // What earlier hosts wrote there would be read by this one, call by call.
    let _ = fs::remove_dir_all(directory.join(STATE));
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
    let listener = seccomp::take(host.as_raw(), i32::from_le_bytes(number)).unwrap();
    channel.write_all(b".").unwrap();
    channel.set_nonblocking(true).unwrap();
    let mut run = Run {
        host,
        listener,
        channel,
        alive,
        injector: Injector::new(host, isolation, fault),
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
                "begin" => self.injector.is_on = true,
                "contained" => {}
                // Proof, and an error of a launch, mean that nothing lives now.
                "gone" | "failed" => {
                    self.injector.is_on = false;
                    self.nothing_lives_now(&line);
                    self.nothing_is_left(&line);
                }
                "unproven" | "dropped" => {
                    // What comes of it is still under way.
                    self.nothing_is_left(&line);
                    self.injector.is_on = false;
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
        self.outcome.injected = self.injector.injected;
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

    /// The host's next line; `None` once it has died or hangs.
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
            let fault = self.injector.fault_of(&call);
            Injector::signal_of(&call, fault);
            self.listener.answer(call, fault);
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
