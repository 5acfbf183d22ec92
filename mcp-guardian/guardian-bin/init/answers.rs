//! Reads IDs from the daemon's JSON lists in constant memory.
//!
//! Quotes inside JSON text are escaped, so a quoted key with its colon is always a key.

use crate::sys::{self, Errno, Fd, PollFd};

pub(crate) const ID: usize = 64;

/// Returns whether the container is gone, or `None` without a response in time.
pub(crate) fn is_gone(daemon: &Fd, until: u64) -> Option<bool> {
    let mut status = [0; 12];
    let mut seen = read_by(daemon, &mut status, until)?;
    // Finish a partly received status line.
    while let Some(rest @ [_, ..]) = status.get_mut(seen..)
        && let Some(read @ 1..) = read_by(daemon, rest, until)
    {
        seen += read;
    }
    Some(status.ends_with(b" 204") || status.ends_with(b" 200") || status.ends_with(b" 404"))
}

/// Calls `tell` for each image in the response, or returns `None` if it is incomplete in time.
pub(crate) fn images(
    socket: &[u8],
    path: &[u8],
    until: u64,
    tell: &mut dyn FnMut(&[u8; ID]),
) -> Option<()> {
    let mut image = Value::after(br#""Id":"sha256:"#);
    each_byte(socket, path, until, &mut |byte| {
        if let Some(image) = image.next(byte) {
            tell(&image);
        }
    })
}

pub(crate) fn containers(
    socket: &[u8],
    path: &[u8],
    until: u64,
    tell: &mut dyn FnMut(&[u8; ID], &[u8; ID]),
) -> Option<()> {
    let mut id = Value::after(br#""Id":""#);
    let mut image = Value::after(br#""ImageID":"sha256:"#);
    let mut container = None;
    each_byte(socket, path, until, &mut |byte| {
        container = id.next(byte).or(container);
        if let Some(image) = image.next(byte)
            && let Some(container) = container.take()
        {
            tell(&container, &image);
        }
    })
}

/// Reads a whole response with the status 200, or returns `None`.
fn each_byte(socket: &[u8], path: &[u8], until: u64, take: &mut dyn FnMut(u8)) -> Option<()> {
    // HTTP/1.0 responses are not chunked.
    let end: &[u8] = b" HTTP/1.0\r\nHost: docker\r\n\r\n";
    let daemon = ask(socket, &[b"GET ", path, end], until)?;
    let (mut status, mut seen) = ([0; 12], 0_usize);
    let mut buffer = [0; 4096];
    let is_whole = loop {
        let read = match read_by(&daemon, &mut buffer, until) {
            Some(0) => break true,
            Some(read) => read,
            None => break false,
        };
        for &byte in buffer.iter().take(read) {
            if let Some(place) = status.get_mut(seen) {
                *place = byte;
            }
            seen = seen.saturating_add(1);
            take(byte);
        }
    };
    (is_whole && status.ends_with(b" 200")).then_some(())
}

/// Sends a request to a Unix socket and returns the descriptor for the response.
pub(crate) fn ask(path: &[u8], parts: &[&[u8]], until: u64) -> Option<Fd> {
    let daemon = sys::connect(path, until).ok()?;
    let is_sent = parts.iter().all(|part| sys::write(&daemon, part) == Ok(part.len()));
    is_sent.then_some(daemon)
}

/// Returns the number of bytes read, 0 at the end, or `None` on timeout.
fn read_by(fd: &Fd, buffer: &mut [u8], until: u64) -> Option<usize> {
    loop {
        match sys::read(fd, buffer) {
            Err(Errno::EAGAIN) => {}
            other => return Some(other.unwrap_or(0)),
        }
        let left = until.checked_sub(sys::now())?;
        sys::poll(&mut [PollFd::readable(Some(fd))], Some(left));
    }
}

/// Finds a key and then the ID that is its value.
struct Value {
    /// With its quotes and colon.
    key: &'static [u8],
    matched: usize,
    value: [u8; ID],
    filled: usize,
}

impl Value {
    const fn after(key: &'static [u8]) -> Self {
        Self { key, matched: 0, value: [0; ID], filled: 0 }
    }

    /// Returns the ID that this byte completes.
    fn next(&mut self, byte: u8) -> Option<[u8; ID]> {
        if let Some(&expected) = self.key.get(self.matched) {
            self.matched = match byte == expected {
                true => self.matched + 1,
                // A key begins with a quote and has no other before its end.
                false => usize::from(byte == b'"'),
            };
            return None;
        }
        if byte.is_ascii_hexdigit()
            && let Some(place) = self.value.get_mut(self.filled)
        {
            *place = byte;
            self.filled += 1;
            return None;
        }
        let is_whole = byte == b'"' && self.filled == ID;
        (self.matched, self.filled) = (0, 0);
        is_whole.then_some(self.value)
    }
}
