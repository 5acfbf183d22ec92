//! Facts from `/proc` on a host and its children.

use std::fs;

use nix::unistd::Pid;

/// The children of a process, of all of its threads: with name and state.
pub(crate) fn children_of(pid: u32) -> Vec<(i32, String)> {
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

pub(crate) fn status(pid: u32, field: &str) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().parse().ok()
}

pub(crate) fn parent_of(pid: u32) -> Option<i32> {
    status(pid, "PPid:")
}

/// The work of each thread of a host that hangs.
pub(crate) fn threads_of(host: Pid) -> String {
    let tasks = fs::read_dir(format!("/proc/{host}/task"))
        .into_iter()
        .flatten();
    let lines = tasks.flatten().map(|task| {
        let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        format!("{}: {}", read("comm").trim(), read("syscall").trim())
    });
    lines.collect::<Vec<_>>().join("; ")
}
