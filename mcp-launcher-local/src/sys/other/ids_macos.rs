//! The ids of processes on macOS that are never given out twice, and signals (libproc, kill(2)). Unmeasured:
//! compiled, and run on no machine of ours.
//!
//! Two questions that the system answers of every user's process. The one that would tell all at once,
//! `PROC_PIDT_BSDINFOWITHUNIQID`, it answers of this user's alone (XNU's `proc_pidinfo`).

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, size_of};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::geteuid;

use super::super::Pid;
use crate::lineage::{Fact, Order, Seen, Sent};

/// Its flavor and its layout are in XNU's `bsd/sys/proc_info_private.h`, which Apple's headers for programs leave out.
#[repr(C)]
struct Ids {
    program: [u8; 16],
    unique: u64,
    started_by: u64,
    version: i32,
    starter_version: i32,
    reserved: [u64; 2],
}

const PROC_PIDUNIQIDENTIFIERINFO: c_int = 17;

/// XNU's `bsd/sys/proc_info.h`.
#[repr(C)]
struct Short {
    pid: u32,
    parent: u32,
    group: u32,
    status: u32,
    name: [u8; 16],
    flags: u32,
    user: u32,
    rest: [u32; 5],
    reserved: u32,
}

const PROC_PIDT_SHORTBSDINFO: c_int = 13;

// As long as the kernel's: it refuses a shorter one, and another length is no answer.
const _: () = assert!(size_of::<Ids>() == 56 && size_of::<Short>() == 64);

/// The process of this number, also when it is a zombie.
pub(super) fn seen(pid: Pid) -> io::Result<Option<Seen>> {
    Ok(fact(pid)?.map(|fact| fact.seen))
}

/// The same, with what else is told of every user's process; its start time is not.
pub(super) fn fact(pid: Pid) -> io::Result<Option<Fact>> {
    // It may have another owner for each question: so often is it asked again.
    for _ in 0..16 {
        let Some(ids) = ids(pid.raw().as_raw())? else {
            return Ok(None);
        };
        let Some(short) = short(pid.raw().as_raw())? else {
            continue;
        };
        if unique(pid.raw().as_raw())? == Some(ids.unique) {
            let name = CStr::from_bytes_until_nul(&short.name).unwrap_or_default();
            return Ok(Some(Fact {
                seen: Seen {
                    pid,
                    unique: ids.unique,
                    started_by: ids.started_by,
                    group: short.group,
                    is_zombie: short.status == libc::SZOMB,
                },
                parent: short.parent,
                start_time: 0,
                is_own: short.user == geteuid().as_raw(),
                name: name.to_string_lossy().into_owned(),
            }));
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}

fn unique(pid: c_int) -> io::Result<Option<u64>> {
    Ok(ids(pid)?.map(|ids| ids.unique))
}

fn ids(pid: c_int) -> io::Result<Option<Ids>> {
    let mut told = MaybeUninit::<Ids>::uninit();
    if !tell(pid, PROC_PIDUNIQIDENTIFIERINFO, &mut told)? {
        return Ok(None);
    }
    // SAFETY: the kernel has written all of it, and any bytes are valid for it.
    Ok(Some(unsafe { told.assume_init() }))
}

fn short(pid: c_int) -> io::Result<Option<Short>> {
    let mut told = MaybeUninit::<Short>::uninit();
    if !tell(pid, PROC_PIDT_SHORTBSDINFO, &mut told)? {
        return Ok(None);
    }
    // SAFETY: the kernel has written all of it, and any bytes are valid for it.
    Ok(Some(unsafe { told.assume_init() }))
}

/// Has all of `told` written; `false` if there is no such process.
fn tell<T>(pid: c_int, flavor: c_int, told: &mut MaybeUninit<T>) -> io::Result<bool> {
    let size = c_int::try_from(size_of::<T>()).unwrap_or(c_int::MAX);
    // SAFETY: `told` has `size` bytes to write to. 1: of a zombie as well.
    let written =
        unsafe { libc::proc_pidinfo(pid, flavor, 1, told.as_mut_ptr().cast::<c_void>(), size) };
    if written == size {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ESRCH) => Ok(false),
        _ => Err(error),
    }
}

/// Sends the signal that is this order.
pub(super) fn send(pid: Pid, order: Order) -> Sent {
    let signal = match order {
        Order::Stop => Signal::SIGSTOP,
        Order::Continue => Signal::SIGCONT,
        Order::Terminate => Signal::SIGTERM,
        Order::Kill => Signal::SIGKILL,
    };
    match kill(pid.raw(), signal) {
        Ok(()) => Sent::Given,
        Err(Errno::ESRCH) => Sent::Nobody,
        Err(_) => Sent::Refused,
    }
}
