//! Waits for the dying predecessors of an exclusive server.

use std::time::{Duration, Instant};
use std::{io, thread};

use super::directory;
use super::foreign_ledgers::Ledgers;
use super::format::Contents;
use super::reap::reap;
use super::visibility::Visibility;
use crate::sys::{self, Seen};

const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// Waits until nothing is left of the servers with this key that have lost their wrapper or user, at most a
/// little longer than `limit`. Ends those that no guardian ends. Never touches one that is in use.
pub fn await_predecessors(key: u32, limit: Duration) -> io::Result<()> {
    let end = Instant::now() + limit;
    let [mut pause, longest] = PAUSES;
    loop {
        let visibility = Visibility::look()?;
        let ledgers = Ledgers::look(directory::candidates(), &visibility, &mut Vec::new());
        let mut dying = ledgers.living.iter();
        let mut dead = ledgers.dead.iter();
        let is_left = dead.any(|it| users(&it.contents, key).next().is_some());
        if is_left {
            reap()?;
        } else if !dying.any(|it| is_dying(it, key, &visibility)) {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(pause);
        pause = (pause * 2).min(longest);
    }
}

fn users(contents: &Contents, key: u32) -> impl Iterator<Item = u32> {
    let exclusive = contents.servers.iter().filter_map(|it| it.exclusive);
    exclusive.filter(move |it| it.key == key).map(|it| it.user)
}

fn is_dying(contents: &Contents, key: u32, visibility: &Visibility) -> bool {
    if !visibility.counts_as(contents.namespace) {
        return false;
    }
    let wrapper = &contents.host;
    let lives = is_alive(sys::see(wrapper.pid()), wrapper.start_time());
    let is_used = |user| user == 0 || is_alive(sys::see(user), wrapper.start_time());
    users(contents, key).any(|user| !lives || !is_used(user))
}

/// Returns whether it is a process that began by then: a later one has only the pid.
fn is_alive(seen: Option<Seen>, by: u64) -> bool {
    seen.is_some_and(|seen| !seen.is_ending && seen.start_time <= by)
}
