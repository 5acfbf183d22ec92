//! The daemon's lists, of which only ids are read, as they come.
//!
//! A quote within a text of JSON is escaped: so a key with its quotes and its colon
//! is a key, wherever it is found.

use crate::sys;

/// The length of an id.
pub(crate) const ID: usize = 64;

/// Tells of each image in the answer to a request.
pub(crate) fn images(socket: &[u8], path: &[u8], tell: &mut dyn FnMut(&[u8; ID])) -> Option<()> {
    let mut image = Value::after(br#""Id":"sha256:"#);
    each_byte(socket, path, &mut |byte| {
        if let Some(image) = image.next(byte) {
            tell(&image);
        }
    })
}

/// Tells of each container, with its image.
pub(crate) fn containers(
    socket: &[u8],
    path: &[u8],
    tell: &mut dyn FnMut(&[u8; ID], &[u8; ID]),
) -> Option<()> {
    let mut id = Value::after(br#""Id":""#);
    let mut image = Value::after(br#""ImageID":"sha256:"#);
    let mut container = None;
    each_byte(socket, path, &mut |byte| {
        container = id.next(byte).or(container);
        if let Some(image) = image.next(byte)
            && let Some(container) = container.take()
        {
            tell(&container, &image);
        }
    })
}

/// `None` when there is no answer, or it is another one than 200.
fn each_byte(socket: &[u8], path: &[u8], take: &mut dyn FnMut(u8)) -> Option<()> {
    // Of this version is an answer that comes as it is, not in chunks.
    let daemon = sys::ask(socket, &[b"GET ", path, b" HTTP/1.0\r\nHost: docker\r\n\r\n"])?;
    let (mut status, mut seen) = ([0; 12], 0_usize);
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = sys::read(daemon, &mut buffer) {
        for &byte in buffer.iter().take(read) {
            if let Some(place) = status.get_mut(seen) {
                *place = byte;
            }
            seen = seen.saturating_add(1);
            take(byte);
        }
    }
    sys::close(daemon);
    status.ends_with(b" 200").then_some(())
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
