//! What a search for orphans asks of macOS (`docs/lineage.md`). Unmeasured: compiled, and run on no machine of ours.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::super::Pid;
use super::{facts, ids};
use crate::lineage::{Fact, Listing, Machine, Order, Processes, Said, Seen, Sent, said};
use crate::orphans::verdict::Mark;

/// This machine, for one search.
#[derive(Debug)]
pub(crate) struct Mac {
    deadline: Instant,
    /// Used again for each process that is read.
    told: Vec<u8>,
}

/// Between two looks at somebody who was killed.
const PAUSE: Duration = Duration::from_millis(2);

impl Mac {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            deadline: Instant::now() + limit,
            told: Vec::new(),
        }
    }
}

impl Processes for Mac {
    fn list(&mut self) -> io::Result<Listing> {
        facts::everybody()
    }

    fn ask(&mut self, pid: Pid) -> io::Result<Option<Seen>> {
        ids::seen(pid)
    }

    fn send(&mut self, pid: Pid, order: Order) -> Sent {
        ids::send(pid, order)
    }
}

impl Machine for Mac {
    fn fact(&mut self, pid: Pid) -> io::Result<Option<Fact>> {
        let Some(mut fact) = ids::fact(pid)? else {
            return Ok(None);
        };
        // Told of this user's processes alone.
        let start_time = facts::start_time_of(pid.as_u32());
        match ids::seen(pid)?.is_some_and(|now| now.unique == fact.seen.unique) {
            true => {
                fact.start_time = start_time.unwrap_or_default();
                Ok(Some(fact))
            }
            // It has ended in between, and so has what was asked of it.
            false => ids::fact(pid),
        }
    }

    fn read(&mut self, pid: Pid) -> Said {
        match facts::arguments_of(pid, &mut self.told) {
            Ok(told) => said(told),
            Err(error) => Said {
                mark: Mark::Unseen(format!("its environment cannot be read: {error}")),
                is_watcher: false,
            },
        }
    }

    fn pause(&mut self) {
        thread::sleep(PAUSE);
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

#[cfg(test)]
#[path = "search_macos_tests.rs"]
mod tests;
