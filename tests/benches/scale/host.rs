//! What this process and its children have, as the kernel tells it.

use std::fs;
use std::time::Duration;

/// The children of this process, whichever of its threads started them: guardians of ours, servers of rmcp's.
pub(crate) fn children() -> Vec<String> {
    let mut children = Vec::new();
    for task in tasks() {
        let text = fs::read_to_string(format!("/proc/self/task/{task}/children"));
        let text = text.unwrap_or_default();
        children.extend(text.split_whitespace().map(str::to_owned));
    }
    children
}

/// A process's proportional share of memory, in KiB.
pub(crate) fn memory(process: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0.0)
}

/// The processor time of this process's threads whose name begins so.
pub(crate) fn processor_time(name: &str) -> Duration {
    let mut ticks = 0;
    for task in tasks() {
        let text = fs::read_to_string(format!("/proc/self/task/{task}/stat")).unwrap_or_default();
        let Some((begin, rest)) = text.rsplit_once(')') else {
            continue;
        };
        let is_wanted = begin
            .split_once('(')
            .is_some_and(|(_, of)| of.starts_with(name));
        if is_wanted {
            // The 14th and 15th field of the line are the 12th and 13th behind the name.
            let fields = rest.split_whitespace().skip(11).take(2);
            ticks += fields
                .filter_map(|field| field.parse::<u64>().ok())
                .sum::<u64>();
        }
    }
    Duration::from_millis(ticks * 10)
}

/// How many processes and threads the machine still has room for.
pub(crate) fn room_for_tasks() -> usize {
    let number = |file: &str| -> usize {
        let text = fs::read_to_string(file).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    let most = number("/proc/sys/kernel/pid_max").min(number("/proc/sys/kernel/threads-max"));
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let there = load
        .split(['/', ' '])
        .nth(4)
        .and_then(|total| total.parse().ok());
    most.saturating_sub(there.unwrap_or(0))
}

fn tasks() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("the threads of this process");
    let name = |task: fs::DirEntry| task.file_name().to_string_lossy().into_owned();
    tasks.flatten().map(name).collect()
}
