//! The processes of this machine, and the identities that they carry.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::format::Contents;
use super::mark::find_mark;
use super::verdict::{Mark, Process, Scene};
use super::visibility;
use crate::answers::{self, NO_ANSWER};
use crate::identity::KEEP;
use crate::keep::{COMMAND_MAX, is_meant};
use crate::program;
use crate::sys::{self, Seen, is_gone};

/// The maximum length of an environment; the kernel's own limit is lower.
const ENVIRONMENT_MAX: u64 = 16 << 20;

/// Takes a snapshot of all visible processes. The ledgers of `living` hosts tell which of them are
/// hosts.
pub(super) fn look(living: &[Contents]) -> io::Result<Scene> {
    let mut scene = Scene::default();
    let pids = sys::numbers_in_proc()?;
    let answers = answers::each(&pids, read_now);
    for (pid, answer) in pids.into_iter().zip(answers) {
        if let Some(process) = answer.unwrap_or_else(|| silent(pid)) {
            if is_host(&process, living) {
                scene.hosts.insert(process.pid);
            }
            scene.processes.insert(process.pid, process);
        }
    }
    Ok(scene)
}

/// Reads the mark of a process; `None` if it has gone. A failure proves nothing.
pub fn mark_of(pid: u32) -> io::Result<Option<Mark>> {
    let answer = answers::one(pid, mark_now);
    answer.unwrap_or_else(|| Ok(Some(Mark::Unseen(NO_ANSWER.to_owned()))))
}

/// Does the same as [`mark_of`], without a time limit: the process can block it.
pub(super) fn mark_now(pid: u32) -> io::Result<Option<Mark>> {
    match sys::look_at(pid)? {
        Some(seen) if !seen.is_dead() && !seen.is_kernel => mark(&seen),
        _ => Ok(None),
    }
}

/// Takes a snapshot of one process; `None` if it has gone.
pub(super) fn read(pid: u32) -> Option<Process> {
    answers::one(pid, read_now).unwrap_or_else(|| silent(pid))
}

/// Takes a snapshot of a process after the read of its environment timed out.
fn silent(pid: u32) -> Option<Process> {
    let seen = sys::see(pid).filter(|seen| !seen.is_dead())?;
    let mark = unseen(pid, &io::Error::other(NO_ANSWER));
    Some(describe(seen, mark))
}

/// Does the same as [`read`], without a time limit.
fn read_now(pid: u32) -> Option<Process> {
    match sys::look_at(pid) {
        Ok(seen) => {
            let seen = seen.filter(|seen| !seen.is_dead() && !seen.is_kernel)?;
            let mark = mark(&seen).unwrap_or_else(|error| Some(unseen(pid, &error)))?;
            Some(describe(seen, mark))
        }
        Err(error) => Some(describe(unknown(pid), unseen(pid, &error))),
    }
}

fn unknown(pid: u32) -> Seen {
    let name = "?".to_owned();
    Seen {
        pid,
        name,
        ..Seen::default()
    }
}

fn describe(seen: Seen, mark: Mark) -> Process {
    let pid = seen.pid;
    let is_marked = matches!(mark, Mark::Cookie(_));
    Process {
        pid,
        parent: seen.parent,
        start_time: seen.start_time,
        stays: is_marked && stays(pid, &seen.name),
        name: seen.name,
        is_guardian: is_marked && is_guardian(pid),
        container: (is_marked && is_in_a_container(pid)).then(|| visibility::inner(pid).0),
        mark,
    }
}

/// Returns whether it is the host of one of these ledgers. The pid of a host is that in its own PID namespace.
fn is_host(process: &Process, living: &[Contents]) -> bool {
    let mut same = living
        .iter()
        .filter(|it| it.host.start_time() == process.start_time)
        .peekable();
    if same.peek().is_none() {
        return false;
    }
    let (namespace, pid) = visibility::inner(process.pid);
    same.any(|it| {
        it.host.pid() == pid && namespace.is_none_or(|namespace| namespace == it.namespace)
    })
}

/// Reads the mark in the initial environment of a process, which it may have overwritten; `None` if it
/// has gone.
fn mark(seen: &Seen) -> io::Result<Option<Mark>> {
    let directory = PathBuf::from(format!("/proc/{}", seen.pid));
    Ok(match environment(&directory)? {
        Environment::Text(text) => Some(find_mark(&text)),
        // Its environment is empty.
        Environment::None if seen.has_environment => Some(Mark::None),
        // Its first thread has ended, or is in `execve`.
        Environment::None => Some(mark_of_threads(&directory)?),
        Environment::Gone => None,
    })
}

/// Reads the mark from any other thread: they share the environment, and may outlive the first one.
fn mark_of_threads(directory: &Path) -> io::Result<Mark> {
    let threads = match fs::read_dir(directory.join("task")) {
        Ok(threads) => threads,
        Err(error) if is_gone(&error) => return Ok(Mark::Passing),
        Err(error) => return Err(error),
    };
    for thread in threads {
        if let Environment::Text(text) = environment(&thread?.path())? {
            return Ok(find_mark(&text));
        }
    }
    Ok(Mark::Passing)
}

enum Environment {
    Text(Vec<u8>),
    /// There is none, or it is empty.
    None,
    Gone,
}

fn environment(directory: &Path) -> io::Result<Environment> {
    let mut text = Vec::new();
    let read = File::open(directory.join("environ"))
        .and_then(|file| file.take(ENVIRONMENT_MAX).read_to_end(&mut text));
    match read {
        Ok(0) => Ok(Environment::None),
        Ok(_) => Ok(Environment::Text(text)),
        Err(error) => match sys::look_in(directory)? {
            None => Ok(Environment::Gone),
            // The files of a process without memory belong to root.
            Some(seen) if seen.is_ending => Ok(Environment::None),
            Some(_) if error.raw_os_error() == Some(libc::ESRCH) => Ok(Environment::None),
            Some(_) => Err(error),
        },
    }
}

/// Returns the mark of an unreadable process: none if this user may not signal it, because it then
/// belongs to another user.
fn unseen(pid: u32, error: &io::Error) -> Mark {
    match sys::may_signal(pid) {
        true => Mark::Unseen(format!("its environment cannot be read: {error}")),
        false => Mark::None,
    }
}

pub(super) fn hidden(pid: u32) -> Process {
    let why = "the /proc here does not show it (hidepid)";
    describe(unknown(pid), Mark::Unseen(why.to_owned()))
}

fn stays(pid: u32, name: &str) -> bool {
    let directory = PathBuf::from(format!("/proc/{pid}"));
    let Ok(Environment::Text(text)) = environment(&directory) else {
        return false;
    };
    let mut variables = text.split(|&byte| byte == 0);
    let patterns = variables.find_map(|it| it.strip_prefix(KEEP.as_bytes())?.strip_prefix(b"="));
    patterns.is_some_and(|patterns| {
        let mut command = Vec::new();
        let file = File::open(directory.join("cmdline"));
        let _ = file.and_then(|file| file.take(COMMAND_MAX as u64).read_to_end(&mut command));
        is_meant(patterns, name.as_bytes(), &command)
    })
}

/// Returns whether it is in a container, by its cgroups: container engines put the 64 digits of the
/// container's id into a name; LXC and systemd-nspawn have prefixes.
fn is_in_a_container(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cgroup")).is_ok_and(|cgroups| names_a_container(&cgroups))
}

fn names_a_container(cgroups: &[u8]) -> bool {
    let mut parts = cgroups.split(|&byte| matches!(byte, b'/' | b'\n'));
    parts.any(|part| {
        let mut words = part.split(|byte| !byte.is_ascii_alphanumeric());
        let is_number = |word: &[u8]| word.len() == 64 && word.iter().all(u8::is_ascii_hexdigit);
        words.any(is_number)
            || part.starts_with(b"lxc.payload")
            || (part.starts_with(b"machine-") && part.ends_with(b".scope"))
    })
}

/// Returns whether it executes the guardian program of this or another version. An unreadable program
/// with that name counts: a guardian must not be killed for being unreadable.
pub fn is_guardian(pid: u32) -> bool {
    try_is_guardian(pid).unwrap_or(false)
}

/// Does the same; fails if it has ended or, for example, belongs to another user.
pub(super) fn try_is_guardian(pid: u32) -> io::Result<bool> {
    let image = format!("/proc/{pid}/exe");
    let is_called_so = program::is_image_path(&fs::read_link(&image)?);
    Ok(is_called_so && File::open(&image).map_or(true, |image| program::is_image(&image)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_known_by_their_cgroups() {
        let id = "0123456789abcdef".repeat(4);
        for container in [
            format!("0::/system.slice/docker-{id}.scope\n"),
            format!("0::/\n5:memory:/docker/{id}\n"),
            format!("0::/user.slice/libpod-{id}.scope/container\n"),
            "0::/lxc.payload.web/init.scope\n".to_owned(),
            "0::/machine.slice/machine-deb.scope\n".to_owned(),
        ] {
            assert!(names_a_container(container.as_bytes()), "{container}");
        }
        for plain in [
            "0::/\n".to_owned(),
            format!("0::/a/mcp-{}\n", &id[..32]),
            "0::/user.slice/user-1000.slice/session-1.scope\n".to_owned(),
        ] {
            assert!(!names_a_container(plain.as_bytes()), "{plain}");
        }
    }

    #[test]
    fn this_process_is_in_the_snapshot() {
        let scene = look(&[]).unwrap();
        let own = &scene.processes[&std::process::id()];
        assert_eq!(own.mark, Mark::None);
        assert!(scene.processes.contains_key(&own.parent));
        assert!(!scene.processes.contains_key(&0));
    }
}
