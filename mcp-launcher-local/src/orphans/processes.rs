//! Who runs on this machine, and whose they say they are.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use super::verdict::{Mark, Process};
use crate::identity::{Cookie, VARIABLE};
use crate::sys;

/// More environment than that is nobody's: the kernel's own limit is lower.
const ENVIRONMENT_MAX: u64 = 16 << 20;

/// Every process that carries a mark.
pub(super) fn marked() -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        // One that ends meanwhile is nobody's.
        processes.extend(pid.and_then(read));
    }
    Ok(processes)
}

/// Who carries the identity of this one server, as far as environments can be
/// read.
pub(crate) fn carrying(server: &Cookie) -> io::Result<Vec<u32>> {
    let all = marked()?.into_iter();
    let its = |mark: &Mark| matches!(mark, Mark::Cookie(cookie) if cookie == server);
    Ok(all
        .filter(|process| its(&process.mark) && !process.is_guardian)
        .map(|process| process.pid)
        .collect())
}

/// What is known of one process; `None` without a mark, or if it has gone.
pub(super) fn read(pid: u32) -> Option<Process> {
    let mark = mark(pid)?;
    Some(Process {
        pid,
        start_time: sys::start_time_of(pid)?,
        name: sys::name_of(pid)?,
        is_guardian: is_guardian(pid),
        mark,
    })
}

/// The mark in the environment that the process was started with, as far as
/// it has not overwritten it. Other users' are not readable.
fn mark(pid: u32) -> Option<Mark> {
    let mut environment = Vec::new();
    let file = File::open(format!("/proc/{pid}/environ")).ok()?;
    let mut file = file.take(ENVIRONMENT_MAX);
    file.read_to_end(&mut environment).ok()?;
    find_mark(&environment)
}

fn find_mark(environment: &[u8]) -> Option<Mark> {
    let values = environment.split(|&byte| byte == 0).filter_map(|variable| {
        variable
            .strip_prefix(VARIABLE.as_bytes())?
            .strip_prefix(b"=")
    });
    let mut marks = values.map(|value| {
        let cookie = str::from_utf8(value).ok().and_then(Cookie::parse);
        cookie.map_or(Mark::Unreadable, Mark::Cookie)
    });
    let first = marks.next()?;
    // Two that differ: one of them is wrong, and nobody knows which.
    Some(if marks.all(|mark| mark == first) {
        first
    } else {
        Mark::Unreadable
    })
}

/// By what it executes, which only whoever executes our image has.
fn is_guardian(pid: u32) -> bool {
    let image = fs::read_link(format!("/proc/{pid}/exe"));
    let name = |image: &OsStr| {
        let image = image.as_bytes();
        image
            .windows(b"mcp-guardian".len())
            .any(|part| part == b"mcp-guardian")
    };
    image.is_ok_and(|image| image.file_name().is_some_and(name))
}

/// This process and its parents: whatever they carry, ending them would end
/// whoever is looking.
pub(super) fn own_line() -> Vec<u32> {
    let mut line = vec![std::process::id()];
    while let Some(parent) = line.last().and_then(|&pid| sys::parent_of(pid))
        && parent > 0
        && !line.contains(&parent)
    {
        line.push(parent);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "5.6.01234567-89ab-cdef-0123-456789abcdef.00000000000000070000000000000008";

    fn mark_in(environment: &str) -> Option<Mark> {
        find_mark(environment.replace("GOOD", GOOD).as_bytes())
    }

    #[test]
    fn a_mark_is_a_whole_variable() {
        let good = Mark::Cookie(Cookie::parse(GOOD).unwrap());
        assert_eq!(
            mark_in("A=1\0MCP_LIFECYCLE_ID=GOOD\0B=2\0"),
            Some(good.clone())
        );
        assert_eq!(
            mark_in("MCP_LIFECYCLE_ID=GOOD\0MCP_LIFECYCLE_ID=GOOD\0"),
            Some(good)
        );
        assert_eq!(mark_in("XMCP_LIFECYCLE_ID=GOOD\0"), None);
        assert_eq!(mark_in("A=MCP_LIFECYCLE_ID=GOOD\0"), None);
        assert_eq!(mark_in(""), None);
    }

    #[test]
    fn a_mark_that_is_empty_cut_or_contradicted_is_unreadable() {
        for environment in [
            "MCP_LIFECYCLE_ID=\0",
            "MCP_LIFECYCLE_ID=5.6.0123",
            "MCP_LIFECYCLE_ID=GOOD0\0",
            "MCP_LIFECYCLE_ID=GOOD\0MCP_LIFECYCLE_ID=\0",
        ] {
            assert_eq!(
                mark_in(environment),
                Some(Mark::Unreadable),
                "{environment}"
            );
        }
    }

    #[test]
    fn one_looks_up_to_the_first_process() {
        let line = own_line();
        assert!(line.len() > 1 && line[0] == std::process::id());
    }
}
