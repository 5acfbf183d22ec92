//! /proc, as far as it tells who is whose child. Pure parsing first, reading below.

use core::ffi::CStr;

use crate::sys::{self, Errno, Fd};

/// What a `stat` file says of a process.
pub(crate) struct Stat {
    pub(crate) comm: [u8; 16],
    pub(crate) state: u8,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// Clock ticks since boot. With the pid, it identifies a process for the life of the machine.
    pub(crate) started: u64,
}

impl Stat {
    /// A name may contain anything, also `) R 1`, so it ends at the last parenthesis.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let open = line.iter().position(|&byte| byte == b'(')?;
        let close = line.iter().rposition(|&byte| byte == b')')?;
        let mut comm = [0; 16];
        let name = line.get(open + 1..close)?;
        comm.iter_mut().zip(name).for_each(|(to, &from)| *to = from);
        let mut fields = line
            .get(close + 1..)?
            .split(|&byte| byte == b' ' || byte == b'\n')
            .filter(|field| !field.is_empty());
        // Numbered as in proc(5): state is field 3, and `nth` counts on from the one before.
        let state = *fields.next()?.first()?;
        let parent = u32::try_from(number(fields.next()?)?).ok()?;
        let group = u32::try_from(number(fields.next()?)?).ok()?;
        let started = number(fields.nth(22 - 6)?)?;
        Some(Self {
            comm,
            state,
            parent,
            group,
            started,
        })
    }

    /// Dead, waiting to be reaped.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, &digit| {
        let digit = digit.is_ascii_digit().then_some(u64::from(digit & 0xf))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

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

/// The entries of a `getdents64` buffer whose names are numbers.
pub(crate) fn numeric_entries(mut buffer: &[u8], each: &mut impl FnMut(u32)) {
    // An entry: inode (8 bytes), offset (8), length of the entry (2), type (1), terminated name.
    const NAME: usize = 19;
    while let Some(&[low, high]) = buffer.get(16..18) {
        let len = usize::from(u16::from_le_bytes([low, high]));
        let Some((entry, rest)) = buffer.split_at_checked(len).filter(|_| len > NAME) else {
            return;
        };
        let name = entry.get(NAME..).unwrap_or_default();
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        if !name.is_empty()
            && let Some(number) = number(name).and_then(|number| u32::try_from(number).ok())
        {
            each(number);
        }
        buffer = rest;
    }
}

/// A path below /proc, put together without an allocator.
pub(crate) struct Path {
    text: [u8; 64],
    len: usize,
}

impl Path {
    pub(crate) fn new(start: &str) -> Self {
        Self {
            text: [0; 64],
            len: 0,
        }
        .then(start)
    }

    /// Appends; what does not fit is cut, and no path of ours is near that.
    pub(crate) fn then(mut self, part: &str) -> Self {
        part.bytes().for_each(|byte| self.push(byte));
        self
    }

    pub(crate) fn number(mut self, number: u32) -> Self {
        let mut divisor = 1;
        while number / divisor >= 10 {
            divisor *= 10;
        }
        while divisor > 0 {
            self.push(b'0' + (number / divisor % 10) as u8);
            divisor /= 10;
        }
        self
    }

    fn push(&mut self, byte: u8) {
        // The last byte stays the terminator.
        if self.len < self.text.len() - 1
            && let Some(end) = self.text.get_mut(self.len)
        {
            *end = byte;
            self.len += 1;
        }
    }

    pub(crate) fn open(&self) -> sys::Result<Fd> {
        sys::open(CStr::from_bytes_until_nul(&self.text).unwrap_or_default())
    }
}

/// What /proc says of `pid` now.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let mut line = [0; 512];
    let file = Path::new("/proc/").number(pid).then("/stat").open().ok()?;
    let len = sys::read(&file, &mut line).ok()?;
    Stat::parse(line.get(..len)?)
}

/// The children of `pid`, by the kernel's own list of every thread, or by looking at every process where that list is not built in.
pub(crate) fn children(pid: u32, each: &mut impl FnMut(u32)) {
    // A process that is gone has no threads to ask, and needs no scan either.
    let (mut threads, mut listed) = (false, false);
    let tasks = Path::new("/proc/").number(pid).then("/task");
    numeric_files(&tasks, &mut |thread| {
        threads = true;
        let path = Path::new("/proc/")
            .number(pid)
            .then("/task/")
            .number(thread)
            .then("/children");
        match path.open() {
            Ok(file) => {
                listed = true;
                read_numbers(&file, each);
            }
            // A thread that has ended, or no such file at all; then nothing is listed. Anything else is not worth a scan.
            Err(errno) => listed |= errno != Errno::ENOENT,
        }
    });
    if threads && !listed {
        numeric_files(&Path::new("/proc"), &mut |candidate| {
            if stat(candidate).is_some_and(|stat| stat.parent == pid) {
                each(candidate);
            }
        });
    }
}

/// Closes descriptors from `first` on, one by one, for kernels without `close_range`.
pub(crate) fn close_from(first: u32) {
    // Closing changes the list that is being read, so it is read again until it has nothing more to close.
    loop {
        let mut closed = 0_u32;
        let Ok(directory) = sys::open(c"/proc/self/fd") else {
            return;
        };
        let mut buffer = [0; 1024];
        while let Ok(len @ 1..) = sys::getdents(&directory, &mut buffer) {
            numeric_entries(buffer.get(..len).unwrap_or_default(), &mut |fd| {
                if fd >= first && !directory.is(fd) {
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
    let Ok(directory) = directory.open() else {
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
