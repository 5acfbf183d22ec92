//! Parents and children in /proc.
//!
//! A /proc of another PID namespace counts as empty: its pids would mean other processes to `kill`.

use core::cell::OnceCell;

use crate::abandoned::{Stream, is_cut_off};
use crate::parse::{Levels, Numbers, minds_no_hangup, numeric_entries};
use crate::stat::Stat;
use crate::staying::Staying;
use crate::sys::{self, Errno, Fd, Filled, PollFd};
use crate::text::Text;

/// Returns /proc. Opened once, since another could be mounted over it.
fn own() -> sys::Result<&'static Fd> {
    static OWN: Filled<Fd> = Filled(OnceCell::new());
    if let Some(own) = OWN.0.get() {
        return Ok(own);
    }
    let proc = sys::open(c"/proc")?;
    let status = sys::open_in(&proc, c"self/status")?;
    let mut levels = Levels::default();
    let mut buffer = [0; 512];
    while let len @ 1.. = sys::read(&status, &mut buffer)? {
        levels.feed(buffer.get(..len).unwrap_or_default());
    }
    // A process has one pid in its own namespace and one in each above.
    if levels.count() > 1 {
        return Err(Errno::ENOENT);
    }
    Ok(OWN.0.get_or_init(|| proc))
}

pub(crate) type Path = Text<64>;

pub(crate) fn open(path: &Path) -> sys::Result<Fd> {
    sys::open_in(own()?, path.c_str())
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let mut line = [0; 512];
    let file = open(Path::new().number(pid.into()).then("/stat")).ok()?;
    let len = sys::read(&file, &mut line).ok()?;
    Stat::parse(line.get(..len)?)
}

/// Calls `each` with the children of `pid`, from the kernel's lists of every thread, or by scanning
/// all processes if the kernel lacks those.
pub(crate) fn children(pid: u32, each: &mut impl FnMut(u32)) {
    // A process that is gone has no threads and needs no scan.
    let (mut threads, mut listed) = (false, false);
    numeric_files(Path::new().number(pid.into()).then("/task"), &mut |thread| {
        threads = true;
        let mut path = Path::new();
        path.number(pid.into()).then("/task/").number(thread.into()).then("/children");
        match open(&path) {
            Ok(file) => {
                listed = true;
                read_numbers(&file, each);
            }
            // The thread has ended, or the kernel lacks the file.
            Err(errno) => listed |= errno != Errno::ENOENT,
        }
    });
    if threads && !listed {
        numeric_files(Path::new().then("."), &mut |candidate| {
            if stat(candidate).is_some_and(|stat| stat.parent == pid) {
                each(candidate);
            }
        });
    }
}

/// Returns whether a host has abandoned this orphan, which accepts no connections and was not started
/// to stay (`--keep`, `setsid`, `nohup`).
pub(crate) fn is_abandoned(pid: u32, host: u32, staying: Staying) -> bool {
    let (Ok(held), Some(stat)) = (sys::pidfd_open(pid), stat(pid)) else {
        return false;
    };
    if !is_cut_off([0, 1, 2].map(|number| stream(pid, number, &held, host))) || stat.session == pid || staying.has(pid, &stat) {
        return false;
    }
    let (mut status, mut is_listed, mut may_listen) = ([0; 4096], false, false);
    numeric_files(Path::new().number(pid.into()).then("/fd"), &mut |fd| {
        is_listed = true;
        may_listen |= sys::pidfd_getfd(&held, fd).map_or(true, |fd| sys::is_listener(&fd));
    });
    let read = open(Path::new().number(pid.into()).then("/status")).and_then(|file| sys::read(&file, &mut status));
    is_listed && !may_listen && read.is_ok() && !minds_no_hangup(&status)
}

fn stream(pid: u32, number: u32, held: &Fd, host: u32) -> Stream {
    let target = |pid: u32| {
        let mut target = [0; 32];
        let link = sys::read_link_in(own()?, Path::new().number(pid.into()).then("/fd/").number(number.into()).c_str(), &mut target);
        link.map(|_| target)
    };
    match target(pid) {
        Err(_) => Stream::Open,
        Ok(is) if !is.starts_with(b"pipe:[") && !is.starts_with(b"socket:[") || target(host) == Ok(is) => Stream::Other,
        Ok(_) => {
            let copy = sys::pidfd_getfd(held, number);
            let mut fds = [PollFd::readable(copy.as_ref().ok()).not_readable()];
            sys::poll(&mut fds, Some(0));
            if fds[0].hung_up() { Stream::Closed } else { Stream::Open }
        }
    }
}

/// Closes all descriptors from `first` on, except the kept ones, for kernels without `close_range`.
pub(crate) fn close_from(first: u32, kept: &[Option<u32>]) {
    loop {
        let mut closed = 0_u32;
        let Ok(directory) = sys::open(c"/proc/self/fd") else {
            return;
        };
        let mut buffer = [0; 1024];
        while let Ok(len @ 1..) = sys::getdents(&directory, &mut buffer) {
            numeric_entries(buffer.get(..len).unwrap_or_default(), &mut |fd| {
                if fd >= first && !directory.is(fd) && !kept.contains(&Some(fd)) {
                    closed += 1;
                    drop(i32::try_from(fd).map(sys::inherited));
                }
            });
        }
        if closed == 0 {
            return;
        }
    }
}

fn numeric_files(directory: &Path, each: &mut impl FnMut(u32)) {
    let Ok(directory) = open(directory) else {
        return;
    };
    let mut buffer = [0; 1024];
    while let Ok(len @ 1..) = sys::getdents(&directory, &mut buffer) {
        numeric_entries(buffer.get(..len).unwrap_or_default(), each);
    }
}

fn read_numbers(file: &Fd, each: &mut impl FnMut(u32)) {
    let mut numbers = Numbers::default();
    let mut buffer = [0; 512];
    while let Ok(len @ 1..) = sys::read(file, &mut buffer) {
        numbers.feed(buffer.get(..len).unwrap_or_default(), each);
    }
    numbers.finish(each);
}
