//! Processes that are born below another one.

use std::collections::BTreeSet;
use std::fs;

/// Every process that was seen below a process. Linux only: elsewhere there are none.
#[derive(Debug)]
pub(crate) struct Births {
    root: u32,
    seen: BTreeSet<u32>,
}

impl Births {
    pub(crate) fn below(root: u32) -> Self {
        let seen = BTreeSet::new();
        Self { root, seen }
    }

    /// Looks again, and tells how many were seen so far.
    pub(crate) fn count(&mut self) -> usize {
        let mut parents = vec![self.root];
        while let Some(parent) = parents.pop() {
            let children = children(parent);
            self.seen.extend(&children);
            parents.extend(children);
        }
        self.seen.len()
    }
}

/// The parent of a process.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok()
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}
