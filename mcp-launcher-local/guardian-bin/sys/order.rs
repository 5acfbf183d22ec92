//! The order to a spare guardian: one datagram, with the server's descriptors.

use core::ffi::{CStr, c_char};

use super::arch::{Args, PAGE, nr};
use super::{Errno, Fd, Result, check, syscall, word};
use crate::order_format::{ORDER_FDS_MAX, ORDER_HEADER, ORDER_MAX, ORDER_STRINGS_MAX, OrderHeader};

/// The strings of an order, where they stay until the guardian ends, and their descriptors.
pub(crate) struct Order {
    pub(crate) header: OrderHeader,
    pub(crate) cwd: &'static CStr,
    pub(crate) program: &'static CStr,
    /// Arguments and environment of the server.
    pub(crate) args: Args,
    pub(crate) fds: [Option<Fd>; ORDER_FDS_MAX],
}

/// The space for an order: its bytes, and a pointer to each of its strings.
const SPACE: usize = (ORDER_MAX + (ORDER_STRINGS_MAX + 2) * size_of::<usize>()).next_multiple_of(PAGE);

/// A `cmsghdr`, and the descriptors behind it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Passed {
    len: usize,
    level: i32,
    kind: i32,
    fds: [i32; ORDER_FDS_MAX],
}

/// An `iovec`.
#[repr(C)]
struct Piece {
    start: *mut u8,
    len: usize,
}

/// A `msghdr`.
#[repr(C)]
struct Message {
    name: usize,
    name_len: u32,
    pieces: *mut Piece,
    pieces_len: usize,
    control: *mut Passed,
    control_len: usize,
    flags: u32,
}

/// Receives one. [`Errno::EINVAL`] for a datagram that is none; a length of 0, the end of the socket, is `None`.
pub(crate) fn receive_order(socket: &Fd) -> Result<Option<Order>> {
    const MSG_DONTWAIT: usize = 0x40;
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
    const MSG_CTRUNC: u32 = 0x8;
    const MSG_TRUNC: u32 = 0x20;
    let space = map()?;
    let mut piece = Piece {
        start: space,
        len: ORDER_MAX,
    };
    let mut passed = Passed {
        len: 0,
        level: 0,
        kind: 0,
        fds: [-1; ORDER_FDS_MAX],
    };
    let mut message = Message {
        name: 0,
        name_len: 0,
        pieces: &raw mut piece,
        pieces_len: 1,
        control: &raw mut passed,
        control_len: size_of::<Passed>(),
        flags: 0,
    };
    let flags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
    // SAFETY: the kernel writes at most `ORDER_MAX` bytes to the mapping, one `Passed`, and into the `Message`, all of which live here.
    let len = check(unsafe {
        syscall(
            nr::RECVMSG,
            [word(socket.0), &raw mut message as usize, flags, 0, 0, 0],
        )
    })?;
    let fds = taken(&passed, message.control_len);
    if len == 0 {
        return Ok(None);
    }
    if message.flags & (MSG_CTRUNC | MSG_TRUNC) != 0 {
        return Err(Errno::EINVAL);
    }
    // SAFETY: that many bytes were written there; nobody writes to them any more, and the mapping stays.
    let bytes: &'static [u8] = unsafe { core::slice::from_raw_parts(space, len) };
    let table = space.wrapping_add(ORDER_MAX).cast::<*const c_char>();
    parse(bytes, table, fds).ok_or(Errno::EINVAL).map(Some)
}

/// The descriptors that have come.
fn taken(passed: &Passed, control_len: usize) -> [Option<Fd>; ORDER_FDS_MAX] {
    const SOL_SOCKET: i32 = 1;
    const SCM_RIGHTS: i32 = 1;
    const HEADER: usize = 16;
    let mut fds = [const { None }; ORDER_FDS_MAX];
    if control_len >= HEADER && passed.level == SOL_SOCKET && passed.kind == SCM_RIGHTS {
        let count = passed.len.saturating_sub(HEADER) / size_of::<i32>();
        for (fd, &number) in fds.iter_mut().zip(passed.fds.iter()).take(count) {
            *fd = (number >= 0).then_some(Fd(number));
        }
    }
    fds
}

fn parse(
    bytes: &'static [u8],
    table: *mut *const c_char,
    fds: [Option<Fd>; ORDER_FDS_MAX],
) -> Option<Order> {
    let header = OrderHeader::decode(bytes)?;
    let count = header.args as usize + header.env as usize;
    if count > ORDER_STRINGS_MAX {
        return None;
    }
    let mut rest = bytes.get(ORDER_HEADER..)?;
    let mut next = || {
        let text = CStr::from_bytes_until_nul(rest).ok()?;
        rest = rest.get(text.to_bytes_with_nul().len()..)?;
        Some(text)
    };
    let (cwd, program) = (next()?, next()?);
    let mut place = table;
    let mut put = |text: *const c_char| {
        // SAFETY: the mapping has room for `ORDER_STRINGS_MAX` pointers and two more from `table` on, which is page-aligned.
        unsafe { place.write(text) };
        place = place.wrapping_add(1);
    };
    for _ in 0..header.args {
        put(next()?.as_ptr());
    }
    put(core::ptr::null());
    for _ in 0..header.env {
        put(next()?.as_ptr());
    }
    put(core::ptr::null());
    // SAFETY: written just so above; the strings are terminated, and the mapping stays.
    let args = unsafe { Args::new(header.args as usize, table) };
    Some(Order {
        header,
        cwd,
        program,
        args,
        fds,
    })
}

/// New memory, which is never unmapped: a guardian takes one order.
fn map() -> Result<*mut u8> {
    const PROT_READ_WRITE: usize = 3;
    const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
    let no_file = word(-1);
    // SAFETY: the kernel chooses where, so nothing that exists is touched.
    let start = unsafe {
        syscall(
            nr::MMAP,
            [0, SPACE, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, no_file, 0],
        )
    };
    check(start).map(|start| start as *mut u8)
}
