//! Sockets.

use super::arch::nr;
use super::{Errno, Fd, O_CLOEXEC, O_NONBLOCK, Result, fill, now, opened, poll, scalar, syscall, word};

const MSG_DONTWAIT: usize = 0x40;
const MSG_NOSIGNAL: usize = 0x4000;

/// Sends by `sendmsg`, since sandboxes without a network refuse `sendto`.
pub(crate) fn send(socket: &Fd, message: &[u8]) -> Result<usize> {
    // `struct iovec` and `struct msghdr`.
    let part = [message.as_ptr() as usize, message.len()];
    let header = [0, 0, part.as_ptr() as usize, 1, 0, 0, 0];
    let (header, flags) = (header.as_ptr() as usize, MSG_DONTWAIT | MSG_NOSIGNAL);
    // SAFETY: the kernel only reads: the header, its one part and the message, which live until it returns.
    unsafe { syscall(nr::SENDMSG, [word(socket.0), header, flags, 0, 0, 0]) }
}

pub(crate) fn recv(socket: &Fd, buffer: &mut [u8]) -> Result<usize> {
    fill(nr::RECVFROM, socket, buffer, MSG_DONTWAIT)
}

pub(crate) fn shutdown_sending(socket: &Fd) {
    const SHUT_WR: usize = 1;
    let _ = scalar(nr::SHUTDOWN, word(socket.0), SHUT_WR, 0, 0);
}

pub(crate) fn is_listener(socket: &Fd) -> bool {
    const SOL_SOCKET: usize = 1;
    const SO_ACCEPTCONN: usize = 30;
    let (mut accepts, mut len) = (0_i32, size_of::<i32>() as u32);
    let (value, size) = (&raw mut accepts as usize, &raw mut len as usize);
    // SAFETY: the kernel writes at most four bytes to `accepts`, and their number to `len`.
    let _ = unsafe { syscall(nr::GETSOCKOPT, [word(socket.0), SOL_SOCKET, SO_ACCEPTCONN, value, size, 0]) };
    accepts != 0
}

#[repr(C)]
struct Address {
    family: u16,
    path: [u8; 108],
}

/// Connects to a Unix socket. Retries until the deadline while its backlog is full.
pub(crate) fn connect(path: &[u8], until: u64) -> Result<Fd> {
    const PAUSE: u64 = 5_000_000;
    const AF_UNIX: u16 = 1;
    const SOCK_STREAM: usize = 1;
    let mut address = Address {
        family: AF_UNIX,
        path: [0; 108],
    };
    if path.len() >= address.path.len() {
        return Err(Errno::EINVAL);
    }
    address.path.iter_mut().zip(path).for_each(|(to, &byte)| *to = byte);
    let kind = SOCK_STREAM | O_CLOEXEC | O_NONBLOCK;
    let socket = opened(scalar(nr::SOCKET, AF_UNIX.into(), kind, 0, 0))?;
    let (start, len) = (&raw const address as usize, size_of::<Address>());
    loop {
        // SAFETY: the kernel reads `len` bytes, which are those of the address.
        match unsafe { syscall(nr::CONNECT, [word(socket.0), start, len, 0, 0, 0]) } {
            Ok(_) => return Ok(socket),
            Err(Errno::EAGAIN) if now() < until => poll(&mut [], Some(PAUSE)),
            Err(errno) => return Err(errno),
        }
    }
}
