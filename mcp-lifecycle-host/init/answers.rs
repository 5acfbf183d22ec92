//! The daemon's lists, of which only ids are read, as they come.
//!
//! A quote within a text of JSON is escaped: so a key with its quotes and its colon
//! is a key, wherever it is found.

use crate::sys;

/// The length of an id.
pub(crate) const ID: usize = 64;

/// Reads the answer to a removal: whether the container is gone, or `None` without an
/// answer by then.
pub(crate) fn is_gone(daemon: i32, until: u64) -> Option<bool> {
    let mut status = [0; 12];
    let mut seen = sys::read_by(daemon, &mut status, until)?;
    // What has begun to come is not left to another look.
    while let Some(rest @ [_, ..]) = status.get_mut(seen..)
        && let Some(read @ 1..) = sys::read_by(daemon, rest, until)
    {
        seen += read;
    }
    Some(status.ends_with(b" 204") || status.ends_with(b" 200") || status.ends_with(b" 404"))
}

/// Tells of each image in the answer to a request, if that is all there by then.
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

/// Tells of each container, with its image.
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

/// `None` when there is no whole answer, or it is another one than 200.
fn each_byte(
    socket: &[u8],
    path: &[u8],
    until: u64,
    take: &mut dyn FnMut(u8),
) -> Option<()> {
    // Of this version is an answer that comes as it is, not in chunks.
    let request: [&[u8]; 3] = [b"GET ", path, b" HTTP/1.0\r\nHost: docker\r\n\r\n"];
    let daemon = sys::ask(socket, &request, until)?;
    let (mut status, mut seen) = ([0; 12], 0_usize);
    let mut buffer = [0; 4096];
    let is_whole = loop {
        let read = match sys::read_by(daemon, &mut buffer, until) {
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
    sys::close(daemon);
    (is_whole && status.ends_with(b" 200")).then_some(())
}

/// Finds a key, and then the id that is its value.
struct Value {
    key: &'static [u8],
    matched: usize,
    value: [u8; ID],
    filled: usize,
}

impl Value {
    const fn after(key: &'static [u8]) -> Self {
        Self { key, matched: 0, value: [0; ID], filled: 0 }
    }

    /// The id that this byte ends.
    fn next(&mut self, byte: u8) -> Option<[u8; ID]> {
        match self.key.get(self.matched) {
            Some(&expected) if byte == expected => self.matched += 1,
            // A key begins with a quote, and has no other before its end.
            Some(_) => self.matched = usize::from(byte == b'"'),
            None if byte.is_ascii_hexdigit() && self.filled < ID => {
                if let Some(place) = self.value.get_mut(self.filled) {
                    *place = byte;
                }
                self.filled += 1;
            }
            None => {
                let is_whole = byte == b'"' && self.filled == ID;
                (self.matched, self.filled) = (0, 0);
                return is_whole.then_some(self.value);
            }
        }
        None
    }
}
