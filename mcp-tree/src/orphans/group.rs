//! Ends a process group after other code of the host has reaped its leader.

use std::time::{Duration, Instant};
use std::{io, thread};

use super::hunt::strike;
use super::processes::mark_of;
use super::verdict::Mark;
use crate::identity::Cookie;
use crate::sys::{self, Pid};

/// Kills the members of this group that carry this identity, and returns whether none is left.
/// Blocks, at most for `limit`.
///
/// The number of a group is reused once it is empty; the new members do not carry the identity.
pub fn end_group(group: Pid, server: &Cookie, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while !is_ended(group, server) {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

fn is_ended(group: Pid, server: &Cookie) -> bool {
    let Ok(members) = sys::members_of_group(group) else {
        return false;
    };
    let is_ours = |pid: Pid| match sys::reserve::with(|| mark_of(pid.as_u32())) {
        Ok(Some(Mark::Cookie(identity))) => Some(identity == *server),
        // Its mark is readable soon.
        Ok(Some(Mark::Passing)) => None,
        Ok(_) => Some(false),
        // A process of another user.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Some(false),
        // The look failed.
        Err(_) => None,
    };
    let mut is_ended = true;
    for member in members {
        match is_ours(member.pid) {
            Some(false) => continue,
            Some(true) => {
                let is_it = || Ok(is_ours(member.pid) == Some(true));
                let _ = strike(member.pid.as_u32(), is_it, sys::kill_held);
            }
            None => {}
        }
        is_ended = false;
    }
    is_ended
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::identity::{self, VARIABLE};

    #[test]
    fn a_group_without_a_leader_is_ended_by_its_identity() {
        let [ours, other] = [(); 2].map(|()| identity::new_server().unwrap());
        let mut leader = Command::new("sh");
        leader.args(["-c", "sleep 1000 & exit"]);
        leader.env(VARIABLE, ours.to_string());
        let leader = leader.process_group(0).stdout(Stdio::piped());
        let mut leader = leader.spawn().unwrap();
        let group = Pid::new(leader.id().into()).unwrap();
        leader.wait().unwrap();
        let limit = Duration::from_secs(20);
        assert!(end_group(group, &other, limit), "it is nobody of theirs");
        assert_eq!(sys::members_of_group(group).unwrap().len(), 1);
        assert!(end_group(group, &ours, limit));
        let mut held = Vec::new();
        let mut stdout = leader.stdout.take().unwrap();
        stdout.read_to_end(&mut held).unwrap();
    }
}
