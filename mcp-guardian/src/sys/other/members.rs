//! The members of a process group, from ps(1), which takes some milliseconds.

use std::io;
use std::process::{Command, Stdio};

use super::super::{Member, Pid};

/// Returns the live members of a process group; zombies do not count.
pub fn members_of_group(group: Pid) -> io::Result<Vec<Member>> {
    let state = match cfg!(any(target_os = "illumos", target_os = "solaris")) {
        true => "s=",
        false => "stat=",
    };
    let listed = Command::new("ps")
        .args([
            "-A", "-o", "pgid=", "-o", "pid=", "-o", state, "-o", "comm=",
        ])
        .stdin(Stdio::null())
        .output()?;
    if !listed.status.success() {
        return Err(io::Error::other(format!("ps failed: {}", listed.status)));
    }
    Ok(super::listing::members(
        &String::from_utf8_lossy(&listed.stdout),
        group,
    ))
}
