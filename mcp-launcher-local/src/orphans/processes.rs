//! The processes of this machine, and the identities that they carry.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::keep::{COMMAND_MAX, is_meant};
use super::mark::find_mark;
use super::sight;
use super::verdict::{Mark, Process, Scene};
use crate::answers::{self, NO_ANSWER};
use crate::guardian::process;
use crate::identity::{HostId, KEEP};
use crate::sys;
use crate::sys::stat::{Stat, is_gone};

/// More environment than that is nobody's: the kernel's own limit is lower.
const ENVIRONMENT_MAX: u64 = 16 << 20;

/// A host that lives, and its PID namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LivingHost {
    pub(super) id: HostId,
    pub(super) namespace: u64,
}

/// Every process that there is to see.
pub(super) fn look(living: &[LivingHost]) -> io::Result<Scene> {
    let mut scene = Scene::default();
    let pids = sys::numbers_in_proc()?;
    let answers = answers::each(&pids, read_now);
    for (pid, answer) in pids.into_iter().zip(answers) {
        // One that ends meanwhile is nobody's.
        if let Some(process) = answer.unwrap_or_else(|| silent(pid)) {
            if is_host(&process, living) {
                scene.hosts.insert(process.pid);
            }
            scene.processes.insert(process.pid, process);
        }
    }
    Ok(scene)
}

/// What a process says about whose it is; `None` if it has gone.
///
/// # Errors
///
/// It could not be asked, which says nothing.
pub(crate) fn mark_of(pid: u32) -> io::Result<Option<Mark>> {
    let answer = answers::one(pid, mark_now);
    answer.unwrap_or_else(|| Ok(Some(Mark::Unseen(NO_ANSWER.to_owned()))))
}

/// As [`mark_of`], for as long as the process likes.
pub(super) fn mark_now(pid: u32) -> io::Result<Option<Mark>> {
    match Stat::read(pid)? {
        Some(stat) if !stat.is_dead() && !stat.is_kernel() => mark(pid, &stat),
        _ => Ok(None),
    }
}

/// What is known of one process; `None` if it has gone.
pub(super) fn read(pid: u32) -> Option<Process> {
    answers::one(pid, read_now).unwrap_or_else(|| silent(pid))
}

/// What is known of a process that does not say anything.
fn silent(pid: u32) -> Option<Process> {
    let stat = Stat::read(pid).ok()??;
    let silence = io::Error::other(NO_ANSWER);
    (!stat.is_dead()).then(|| Process {
        pid,
        parent: stat.parent,
        start_time: stat.start_time,
        name: stat.name,
        is_guardian: false,
        stays: false,
        container: None,
        mark: unseen(pid, &silence),
    })
}

/// As [`read`], for as long as the process likes.
fn read_now(pid: u32) -> Option<Process> {
    let (stat, mark) = match Stat::read(pid) {
        Ok(stat) => {
            let stat = stat.filter(|stat| !stat.is_dead() && !stat.is_kernel())?;
            let mark = mark(pid, &stat).unwrap_or_else(|error| Some(unseen(pid, &error)))?;
            (Some(stat), mark)
        }
        Err(error) => (None, unseen(pid, &error)),
    };
    let is_marked = matches!(mark, Mark::Cookie(_));
    let name = stat
        .as_ref()
        .map_or_else(|| "?".to_owned(), |stat| stat.name.clone());
    Some(Process {
        pid,
        parent: stat.as_ref().map_or(0, |stat| stat.parent),
        start_time: stat.as_ref().map_or(0, |stat| stat.start_time),
        stays: is_marked && stays(pid, &name),
        name,
        is_guardian: is_marked && is_guardian(pid),
        container: (is_marked && is_in_a_container(pid)).then(|| sight::inner(pid).0),
        mark,
    })
}

/// Returns whether it is one of these hosts. A host counts itself by the numbers of its
/// own PID namespace.
fn is_host(process: &Process, living: &[LivingHost]) -> bool {
    let mut same = living
        .iter()
        .filter(|host| host.id.start_time() == process.start_time)
        .peekable();
    if same.peek().is_none() {
        return false;
    }
    let (namespace, pid) = sight::inner(process.pid);
    same.any(|host| {
        host.id.pid() == pid && namespace.is_none_or(|namespace| namespace == host.namespace)
    })
}

/// The mark in the environment that the process was started with, as far as
/// it has not overwritten it; `None` if it has gone.
fn mark(pid: u32, stat: &Stat) -> io::Result<Option<Mark>> {
    let directory = PathBuf::from(format!("/proc/{pid}"));
    Ok(match environment(&directory)? {
        Environment::Text(text) => Some(find_mark(&text)),
        // It has one, in which there is nothing.
        Environment::None if stat.has_environment() => Some(Mark::None),
        // Its first thread has none any more, or none yet.
        Environment::None => Some(mark_of_threads(pid)?),
        Environment::Gone => None,
    })
}

/// The other threads have the environment as well, and they may live on.
fn mark_of_threads(pid: u32) -> io::Result<Mark> {
    let threads = match fs::read_dir(format!("/proc/{pid}/task")) {
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

/// The environment of a process or thread.
enum Environment {
    Text(Vec<u8>),
    /// It has none, or an empty one.
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
        Err(error) => match Stat::read_in(directory)? {
            None => Ok(Environment::Gone),
            // The files of what has no memory any more are root's.
            Some(stat) if stat.is_ending() => Ok(Environment::None),
            Some(_) if error.raw_os_error() == Some(libc::ESRCH) => Ok(Environment::None),
            Some(_) => Err(error),
        },
    }
}

/// Takes what cannot be read for other users', and nobody's here, unless we have the
/// right to signal it.
fn unseen(pid: u32, error: &io::Error) -> Mark {
    match sys::may_signal(pid) {
        true => Mark::Unseen(format!("its environment cannot be read: {error}")),
        false => Mark::None,
    }
}

/// A process of this user that `/proc` does not show.
pub(super) fn hidden(pid: u32) -> Process {
    Process {
        pid,
        parent: 0,
        start_time: 0,
        name: "?".to_owned(),
        is_guardian: false,
        stays: false,
        container: None,
        mark: Mark::Unseen("the /proc here does not show it (hidepid)".to_owned()),
    }
}

/// Returns whether it is to stay when its server ends, by what it carries.
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

/// By its cgroups: container engines put the whole number of the container
/// into the name of one, which is 64 digits, and LXC and systemd-nspawn say what
/// they are. What cannot be read says nothing, and the process is judged by its
/// mark alone.
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

/// Returns whether it executes our program, of this version or another one. What cannot be read
/// and is called so is taken for it: nobody ends a guardian for being unreadable.
pub(crate) fn is_guardian(pid: u32) -> bool {
    try_is_guardian(pid).unwrap_or(false)
}

/// The same.
///
/// # Errors
///
/// It cannot be told what it executes: another user's, for one, or one that has ended.
pub(super) fn try_is_guardian(pid: u32) -> io::Result<bool> {
    let image = format!("/proc/{pid}/exe");
    let is_called_so = process::is_image_path(&fs::read_link(&image)?);
    Ok(is_called_so && File::open(&image).map_or(true, |image| process::is_image(&image)))
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
    fn this_process_is_seen() {
        let scene = look(&[]).unwrap();
        let own = &scene.processes[&std::process::id()];
        assert_eq!(own.mark, Mark::None);
        assert!(scene.processes.contains_key(&own.parent));
        assert!(!scene.processes.contains_key(&0));
    }
}
