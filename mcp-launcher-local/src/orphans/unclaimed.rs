//! Processes that nobody claims: what hosts without containment leave.

use std::collections::{BTreeMap, BTreeSet};
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
            && !is_a_service(process.pid)
    };
    let left = scene.processes.values().filter(is_left);
    let left = left.filter_map(|process| Some((process, input_of(process.pid)?)));
    let left: Vec<_> = left.collect();
    let pipes = left.iter().map(|(_, input)| input.as_str());
    let holders = holders(&scene, pipes.filter(|it| it.starts_with("pipe:")).collect());
    let is_alone = |process: &Process, input: &str| {
        let mut others = holders.get(input).into_iter().flatten();
        others.all(|other| scene.line(*other).any(|above| above == process.pid))
    };
    let left = left
        .iter()
        .filter(|(process, input)| is_alone(process, input));
    let with_all = left.filter_map(|(process, _)| {
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

/// Its standard input, if that is a pipe or a socket, of which the other end cannot be seen. A daemon has neither.
fn input_of(pid: u32) -> Option<String> {
    let input = target(pid, "0")?;
    (input.starts_with("pipe:") || input.starts_with("socket:")).then_some(input)
}

/// Who has these files open, as far as can be seen. One look for all of them.
fn holders(scene: &Scene, files: BTreeSet<&str>) -> BTreeMap<String, Vec<u32>> {
    let mut holders = BTreeMap::<String, Vec<u32>>::new();
    if files.is_empty() {
        return holders;
    }
    for pid in scene.processes.keys().copied() {
        let entries = fs::read_dir(format!("/proc/{pid}/fd"));
        for entry in entries.into_iter().flatten().flatten() {
            let file = target(pid, &entry.file_name().to_string_lossy());
            if let Some(file) = file.filter(|file| files.contains(file.as_str())) {
                holders.entry(file).or_default().push(pid);
            }
        }
    }
    holders
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
