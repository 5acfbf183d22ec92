//! A process group whose leader somebody else has reaped.

use std::time::{Duration, Instant};
use std::{io, thread};

use super::processes::mark_of;
use super::verdict::Mark;
use crate::identity::Cookie;
use crate::sys::{self, Pid};

/// Ends whoever is in this group and carries this identity, and says whether
/// nobody is left. Blocks, at most `limit` long.
///
/// The number of a group that has members is nobody else's; that of an empty one
/// may be, whose members do not carry the identity.
pub(crate) fn end_group(group: Pid, server: &Cookie, limit: Duration) -> bool {
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
        // It will say so.
        Ok(Some(Mark::Passing)) => None,
        Ok(_) => Some(false),
        // Another user's.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Some(false),
        // It was not asked.
        Err(_) => None,
    };
    let mut is_ended = true;
    for member in members {
        match is_ours(member.pid) {
            Some(false) => continue,
            // Held first, and then asked once more.
            Some(true) => {
                if let Ok(held) = sys::hold(member.pid)
                    && is_ours(member.pid) == Some(true)
                {
                    let _ = sys::kill_held(&held);
                }
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
