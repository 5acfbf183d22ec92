//! Processes that nobody claims: what hosts without containment leave.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use super::inventory::see;
use super::processes;
use super::verdict::{Mark, Process, Scene};
use crate::inventory::Unclaimed;
use crate::sys;

/// Looks for them.
pub(crate) fn unclaimed() -> io::Result<Vec<Unclaimed>> {
    let user = nix::unistd::geteuid().as_raw();
    let is_own = |pid: u32| fs::metadata(format!("/proc/{pid}")).is_ok_and(|it| it.uid() == user);
    let scene = processes::look(&[])?;
    let is_adopter = |pid: u32| {
        let process = scene.processes.get(&pid);
        // Where there is a manager of the user's services, it adopts the user's orphans.
        pid == 1 || process.is_some_and(|it| it.name == "systemd" && it.parent == 1 && is_own(pid))
    };
    let is_left = |process: &&Process| {
        process.mark == Mark::None
            && process.pid > 1
            && is_adopter(process.parent)
            && is_own(process.pid)
            && reads_from_nobody(process.pid, &scene)
            && !is_a_service(process.pid)
    };
    let left = scene.processes.values().filter(is_left);
    let with_all = left.filter_map(|process| {
        let below = scene.processes.values().filter(|it| {
            it.pid != process.pid && scene.line(it.pid).any(|above| above == process.pid)
        });
        Some(Unclaimed {
            process: see(process.pid)?,
            descendants: below.filter_map(|it| see(it.pid)).collect(),
        })
    });
    Ok(with_all.collect())
}

/// Returns whether its standard input is a pipe that nobody else has open, as far as can be seen, or a socket, of which the
/// other end cannot be seen. A daemon has neither.
fn reads_from_nobody(pid: u32, scene: &Scene) -> bool {
    let Some(input) = target(pid, "0") else {
        return false;
    };
    let is_below = |other: u32| scene.line(other).any(|above| above == pid);
    let mut others = scene.processes.keys().filter(|other| !is_below(**other));
    match input.starts_with("pipe:") {
        true => !others.any(|other| has_open(*other, &input)),
        false => input.starts_with("socket:"),
    }
}

fn has_open(pid: u32, file: &str) -> bool {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"));
    let mut names = entries.into_iter().flatten().flatten();
    names.any(|entry| target(pid, &entry.file_name().to_string_lossy()).as_deref() == Some(file))
}

fn target(pid: u32, descriptor: &str) -> Option<String> {
    let target = fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
    target.to_str().map(str::to_owned)
}

/// Returns whether a service manager keeps it, by its cgroup. What cannot be told is a service.
fn is_a_service(pid: u32) -> bool {
    match sys::text_of(format!("/proc/{pid}/cgroup")) {
        Ok(cgroups) => cgroups.lines().any(|line| line.ends_with(".service")),
        Err(_) => true,
    }
}
