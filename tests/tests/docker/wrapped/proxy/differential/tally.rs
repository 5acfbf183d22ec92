//! The results of many batches.

use std::collections::BTreeMap;
use std::fmt;

/// The results of some batches.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) asked: u64,
    pub(super) created: usize,
    /// Created through the proxy, and without our labels. In `different` as well.
    pub(super) unlabelled: usize,
    pub(super) different: Vec<String>,
    pub(super) explained: BTreeMap<&'static str, usize>,
    /// Run once more, because an answer was late: how, and which seed.
    pub(super) again: Vec<String>,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.asked += other.asked;
        self.created += other.created;
        self.unlabelled += other.unlabelled;
        self.different.extend(other.different);
        self.again.extend(other.again);
        for (why, count) in other.explained {
            *self.explained.entry(why).or_default() += count;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} requests, {} creates, {} of them unlabelled, {} differences unexplained",
            self.asked,
            self.created,
            self.unlabelled,
            self.different.len()
        )?;
        for (why, count) in &self.explained {
            write!(f, "\n{count:6} explained: {why}")?;
        }
        for again in &self.again {
            write!(f, "\ncompared again: {again}")?;
        }
        Ok(())
    }
}
