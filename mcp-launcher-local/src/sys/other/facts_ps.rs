//! The facts that ps(1) tells about processes, on systems whose own interfaces we do not
//! use. Slow, some milliseconds a question, and asked only once a leader has
//! ended. The parser is tested everywhere, the rest was run on no machine of ours.

use std::io;
use std::process::{Command, Stdio};

use super::super::{Member, Pid};

/// Without it a host has no identity, and its servers carry none.
pub(super) fn start_time_of(_pid: u32) -> Option<u64> {
    None
}

pub(super) fn boot_id() -> Option<String> {
    None
}

/// The live members of a process group; zombies do not count.
pub(super) fn members_of_group(group: Pid) -> io::Result<Vec<Member>> {
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
