//! A census of what this process holds on to: descriptors, threads, children.
//!
//! A launcher that ends a server and keeps one of its pipes, or never reaps
//! it, leaks in the host. Taken before and after, a [`Census`] shows it.
//!
//! Linux only: it reads `/proc/self`. Elsewhere a census is empty, and so
//! always the same.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// The things that this process holds on to at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Census {
    /// The target of each open descriptor.
    fds: BTreeMap<i32, String>,
    /// The name of each thread.
    threads: BTreeMap<u32, String>,
    /// Each child, dead or alive, that nobody has reaped.
    children: BTreeMap<u32, Child>,
    ignores_threads: bool,
    allows_less: bool,
}

/// A child that nobody has reaped.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Child {
    name: String,
    zombie: bool,
}

impl Census {
    /// Counts now.
    pub fn take() -> Self {
        Self {
            fds: fds(),
            threads: threads(),
            children: children(),
            ignores_threads: false,
            allows_less: false,
        }
    }

    /// Compares what there is more of: what still comes to its end when the census is
    /// taken is missing later.
    #[must_use]
    pub fn allowing_less(mut self) -> Self {
        self.allows_less = true;
        self
    }

    /// Leaves the threads out of the comparison, where others come and go: a
    /// test harness that runs tests in threads.
    #[must_use]
    pub fn without_threads(mut self) -> Self {
        self.ignores_threads = true;
        self
    }

    /// The number of descriptors that are open.
    pub fn fd_count(&self) -> usize {
        self.fds.len()
    }

    /// The number of descriptors that refer to something of this kind: `socket:`, `pipe:`,
    /// or a target as `/proc/self/fd` tells it.
    pub fn fds_of(&self, kind: &str) -> usize {
        kinds(&self.fds).get(kind).copied().unwrap_or(0)
    }

    /// The number of threads that run.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// The number of children, zombies included.
    pub fn child_count(&self) -> usize {
        self.children.len()
    }

    /// The number of children that have ended and were not reaped.
    pub fn zombie_count(&self) -> usize {
        self.children.values().filter(|child| child.zombie).count()
    }

    /// Finds what there is more or less of in `after`; `None` when it is the same.
    ///
    /// Descriptors and threads are compared by kind and number, not by their
    /// own numbers: a pool that replaced a thread has not leaked one. Threads of
    /// Tokio's own pools, which come and go by their own clock, and threads that
    /// have ended are not a difference. So are children, as long as they live: what keeps one
    /// ready may replace it. One that has ended and was not reaped is a difference.
    pub fn difference(&self, after: &Self) -> Option<Difference> {
        let mut text = String::new();
        let (before, mut more) = (kinds(&self.fds), kinds(&after.fds));
        if self.allows_less {
            for (kind, count) in &before {
                let now = more.entry(kind).or_default();
                *now = (*now).max(*count);
            }
        }
        compare(&mut text, "fd", &before, &more);
        if !self.ignores_threads {
            let before = kinds(&self.threads);
            let mut more = kinds(&after.threads);
            more.retain(|name, count| {
                !name.starts_with("tokio-") && before.get(name).is_none_or(|before| before < count)
            });
            let before = before
                .into_iter()
                .filter(|(name, _)| more.contains_key(name));
            compare(&mut text, "thread", &before.collect(), &more);
        }
        for (pid, child) in &after.children {
            let is_new = self.children.get(pid) != Some(child);
            let more = || self.living(&child.name) < after.living(&child.name);
            if is_new && (child.zombie || more()) {
                let state = if child.zombie { "zombie" } else { "child" };
                let _ = writeln!(text, "  + {state} {pid} ({})", child.name);
            }
        }
        (!text.is_empty()).then(|| Difference {
            text,
            after: after.clone(),
        })
    }

    /// The number of living children of this name.
    fn living(&self, name: &str) -> usize {
        let living = |child: &&Child| !child.zombie && child.name == name;
        self.children.values().filter(living).count()
    }

    /// Takes a census until it is the same as `self`, at most `limit` long.
    ///
    /// The code under test reaps and closes in tasks of its own, and nothing
    /// outside of it can wait for that: so this looks again and again, and
    /// yields in between. A pass takes no longer than the code under test
    /// does; only a failure takes the whole `limit`.
    ///
    /// # Errors
    ///
    /// The last [`Difference`].
    pub fn settle(&self, limit: Duration) -> Result<(), Difference> {
        let deadline = Instant::now() + limit;
        while let Some(difference) = self.difference(&Self::take()) {
            if Instant::now() >= deadline {
                return Err(difference);
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// [`settle`](Self::settle) for a test on a current-thread runtime, whose
    /// tasks run only while it yields.
    ///
    /// # Errors
    ///
    /// The last [`Difference`].
    pub async fn settle_async(&self, limit: Duration) -> Result<(), Difference> {
        let deadline = Instant::now() + limit;
        while let Some(difference) = self.difference(&Self::take()) {
            if Instant::now() >= deadline {
                return Err(difference);
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

/// Panics when `after` is not the same as `before`, and says what differs.
///
/// # Panics
///
/// See above.
#[track_caller]
pub fn assert_same(before: &Census, after: &Census) {
    if let Some(difference) = before.difference(after) {
        panic!("{difference}");
    }
}

/// The difference between two censuses.
#[derive(Debug, Clone)]
pub struct Difference {
    text: String,
    after: Census,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "this process holds on to something:")?;
        f.write_str(&self.text)?;
        writeln!(f, "all descriptors now:")?;
        for (fd, target) in &self.after.fds {
            writeln!(f, "  {fd} -> {target}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Difference {}

/// The number of there that are of each kind; `socket:[123]` is a `socket:`.
fn kinds<K>(things: &BTreeMap<K, String>) -> BTreeMap<&str, usize> {
    let mut kinds = BTreeMap::new();
    for thing in things.values() {
        let kind = match thing.split_once(":[") {
            Some((kind @ ("socket" | "pipe"), _)) => kind,
            _ => thing.as_str(),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

fn compare(
    text: &mut String,
    what: &str,
    before: &BTreeMap<&str, usize>,
    after: &BTreeMap<&str, usize>,
) {
    let mut all: Vec<&str> = before.keys().chain(after.keys()).copied().collect();
    all.sort_unstable();
    all.dedup();
    for kind in all {
        let count = |census: &BTreeMap<&str, usize>| census.get(kind).copied().unwrap_or(0);
        let (before, after) = (count(before), count(after));
        if before != after {
            let sign = if after > before { '+' } else { '-' };
            let _ = writeln!(
                text,
                "  {sign} {what} {kind}: {before} before, {after} after"
            );
        }
    }
}

fn fds() -> BTreeMap<i32, String> {
    entries("/proc/self/fd")
        .filter_map(|(fd, path)| {
            // The descriptor that lists the directory is closed by now, and so
            // has no target any more.
            let target = fs::read_link(path).ok()?;
            let target = target.to_string_lossy().into_owned();
            Some((i32::try_from(fd).ok()?, target))
        })
        .filter(|(_, target)| !target.ends_with("/fd"))
        .collect()
}

fn threads() -> BTreeMap<u32, String> {
    entries("/proc/self/task")
        .filter_map(|(tid, path)| {
            let name = fs::read_to_string(Path::new(&path).join("comm")).ok()?;
            Some((tid, name.trim_end().to_owned()))
        })
        .collect()
}

fn children() -> BTreeMap<u32, Child> {
    let mut children = BTreeMap::new();
    for (_, path) in entries("/proc/self/task") {
        let Ok(list) = fs::read_to_string(Path::new(&path).join("children")) else {
            continue;
        };
        for pid in list.split_whitespace().filter_map(|pid| pid.parse().ok()) {
            // Reaped between the two reads, where this fails.
            if let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) {
                children.extend(parse_stat(&stat).map(|child| (pid, child)));
            }
        }
    }
    children
}

/// `pid (name) state ...`, where the name may contain anything.
fn parse_stat(stat: &str) -> Option<Child> {
    let (head, tail) = stat.rsplit_once(") ")?;
    let (_, name) = head.split_once('(')?;
    // Fields 3 and 20 of proc_pid_stat(5). The state is that of the first
    // thread, and others may live.
    let mut fields = tail.split_ascii_whitespace();
    let state = fields.next()?;
    let threads: u64 = fields.nth(20 - 4)?.parse().ok()?;
    Some(Child {
        name: name.to_owned(),
        zombie: matches!(state, "Z" | "X") && threads <= 1,
    })
}

/// The entries of a directory whose names are numbers.
fn entries(directory: &str) -> impl Iterator<Item = (u32, std::path::PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, entry.path()))
    });
    // All of it first: the listing itself is a descriptor.
    numbered.collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_hide_a_zombie() {
        let parse = |state, threads| {
            let rest = "1 12 12 0 -1 0 1 2 3 4 5 6 7 8 20 0";
            parse_stat(&format!("12 (a) S (b)) {state} {rest} {threads} 0 99")).unwrap()
        };
        assert_eq!(parse('Z', 1).name, "a) S (b)");
        assert!(parse('Z', 1).zombie);
        assert!(!parse('S', 1).zombie);
        assert!(!parse('Z', 2).zombie, "its other thread lives");
    }
}
