//! Parsers of other files in /proc. Pure: the tests of the crate include this file by path.

use core::ffi::CStr;

use super::stat::number;

/// Numbers separated by spaces, which may be cut anywhere between two calls.
#[derive(Default)]
pub(crate) struct Numbers {
    current: Option<u32>,
}

impl Numbers {
    pub(crate) fn feed(&mut self, text: &[u8], each: &mut impl FnMut(u32)) {
        for &byte in text {
            if byte.is_ascii_digit() {
                self.current = Some(
                    self.current
                        .unwrap_or(0)
                        .wrapping_mul(10)
                        .wrapping_add(u32::from(byte & 0xf)),
                );
            } else if let Some(number) = self.current.take() {
                each(number);
            }
        }
    }

    pub(crate) fn finish(self, each: &mut impl FnMut(u32)) {
        if let Some(number) = self.current {
            each(number);
        }
    }
}

/// An entry of a `getdents64` buffer: inode (8 bytes), offset (8), length of the entry (2), type (1), terminated name.
const TYPE: usize = 18;
const NAME: usize = 19;

/// The entries of a `getdents64` buffer whose names are numbers.
pub(crate) fn numeric_entries(buffer: &[u8], each: &mut impl FnMut(u32)) {
    entries(buffer, &mut |entry| {
        let name = entry.get(NAME..).unwrap_or_default();
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        if let Some(number) = number(name).and_then(|number| u32::try_from(number).ok()) {
            each(number);
        }
    });
}

/// The entries of a `getdents64` buffer that are directories, but for `.` and `..`.
pub(crate) fn subdirectories(buffer: &[u8], each: &mut impl FnMut(&CStr)) {
    const DIRECTORY: u8 = 4;
    entries(buffer, &mut |entry| {
        let is_directory = entry.get(TYPE) == Some(&DIRECTORY);
        let name = CStr::from_bytes_until_nul(entry.get(NAME..).unwrap_or_default());
        if let Ok(name) = name
            && is_directory
            && !matches!(name.to_bytes(), b"." | b"..")
        {
            each(name);
        }
    });
}

/// Whether a file of lines, each a name and a number, has another number than 0 at this name.
pub(crate) fn is_counted(text: &[u8], name: &[u8]) -> bool {
    let mut lines = text.split(|&byte| byte == b'\n');
    lines.any(|line| {
        let (known, count) = line.split_at(
            line.iter()
                .position(|&byte| byte == b' ')
                .unwrap_or(line.len()),
        );
        known == name && number(count.get(1..).unwrap_or_default()).is_some_and(|count| count > 0)
    })
}

fn entries(mut buffer: &[u8], each: &mut impl FnMut(&[u8])) {
    while let Some(&[low, high]) = buffer.get(16..TYPE) {
        let len = usize::from(u16::from_le_bytes([low, high]));
        let Some((entry, rest)) = buffer.split_at_checked(len).filter(|_| len > NAME) else {
            return;
        };
        each(entry);
        buffer = rest;
    }
}
