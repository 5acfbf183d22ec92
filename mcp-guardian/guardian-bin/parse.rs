//! Parsers of other files in /proc. Pure; the tests include this file by path.

use core::ffi::CStr;

use super::stat::number;

/// Parses numbers separated by spaces, in pieces of any size.
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

/// Counts the pids of a process in its `status` file, in pieces of any size: one for each PID
/// namespace from that of the /proc down. Zero if the kernel has no such namespaces.
#[derive(Default)]
pub(crate) struct Levels {
    seen: usize,
    numbers: Numbers,
    count: u32,
    is_over: bool,
}

impl Levels {
    const NAME: &[u8] = b"\nNSpid:";

    pub(crate) fn feed(&mut self, text: &[u8]) {
        for &byte in text {
            match Self::NAME.get(self.seen) {
                Some(&wanted) if wanted == byte => self.seen += 1,
                // Only the first byte of the name is a line feed.
                Some(_) => self.seen = usize::from(byte == b'\n'),
                None if self.is_over => {}
                None => {
                    self.numbers.feed(&[byte], &mut |_| self.count += 1);
                    self.is_over = byte == b'\n';
                }
            }
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}

/// Returns whether a process ignores or blocks SIGHUP, by its `status` file; `true` if that is not in it.
pub(crate) fn minds_no_hangup(status: &[u8]) -> bool {
    let has_it = |mask: &[u8]| {
        let mut lines = status.split(|&byte| byte == b'\n');
        let last = lines.find_map(|line| line.strip_prefix(mask)?.get(15));
        last.is_none_or(|digit| b"13579bdf".contains(digit))
    };
    has_it(b"SigIgn:\t") || has_it(b"SigBlk:\t")
}

/// Layout of a `getdents64` entry: inode (8 bytes), offset (8), length (2), type (1), terminated
/// name.
const TYPE: usize = 18;
const NAME: usize = 19;

pub(crate) fn numeric_entries(buffer: &[u8], each: &mut impl FnMut(u32)) {
    entries(buffer, &mut |entry| {
        let name = entry.get(NAME..).unwrap_or_default();
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        if let Some(number) = number(name) {
            each(number);
        }
    });
}

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

/// Returns whether a file of names and numbers has a nonzero number for this name.
pub(crate) fn is_counted(text: &[u8], name: &[u8]) -> bool {
    let mut lines = text.split(|&byte| byte == b'\n');
    lines.any(|line| {
        let (known, count) = line.split_at(
            line.iter()
                .position(|&byte| byte == b' ')
                .unwrap_or(line.len()),
        );
        known == name
            && number(count.get(1..).unwrap_or_default()).is_some_and(|count: u64| count > 0)
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
