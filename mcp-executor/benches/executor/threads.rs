//! The cost of a call for each thread on its way: how often it goes to sleep, and
//! for how long it has a processor.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

/// Processor time in ns, and how often it went to sleep, of each thread.
#[derive(Debug, Clone)]
pub(crate) struct Threads(BTreeMap<String, (u64, u64)>);

impl Threads {
    /// Reads what the threads of this process have used so far.
    pub(crate) fn of(process: u32) -> Self {
        let mut all = BTreeMap::new();
        let tasks = fs::read_dir(format!("/proc/{process}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let path = task.path();
            let read = |name| fs::read_to_string(path.join(name)).unwrap_or_default();
            let status = read("status");
            let used = read("schedstat");
            let used = used.split(' ').next().and_then(|ns| ns.parse().ok());
            let sleeps = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
                .and_then(|count| count.trim().parse().ok());
            let number = task.file_name();
            let name = format!("{} {}", read("comm").trim(), number.to_string_lossy());
            all.insert(name, (used.unwrap_or(0), sleeps.unwrap_or(0)));
        }
        Self(all)
    }

    /// A line of what came since, for each of so many calls.
    pub(crate) fn since(&self, before: &Self, calls: usize) -> String {
        let mut line = String::new();
        let mut sum = (0.0, 0.0);
        for (name, now) in &self.0 {
            let then = before.0.get(name).copied().unwrap_or_default();
            let each = |now: u64, then: u64| now.saturating_sub(then) as f64 / calls as f64;
            let (us, sleeps) = (each(now.0, then.0) / 1000.0, each(now.1, then.1));
            if sleeps >= 0.005 {
                let _ = write!(line, "; {name}: {sleeps:.2}, {us:.0} us");
                sum = (sum.0 + sleeps, sum.1 + us);
            }
        }
        format!("{:.2} sleeps, {:.0} us{line}", sum.0, sum.1)
    }
}
