//! /proc, as far as it tells who is whose child.

use core::ffi::CStr;

use crate::parse::{Numbers, numeric_entries};
use crate::stat::Stat;
use crate::sys::{self, Errno, Fd};

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

    /// What was put together.
    pub(crate) fn text(&self) -> &[u8] {
        self.text.get(..self.len).unwrap_or_default()
    }

    pub(crate) fn open_to_write(&self) -> sys::Result<Fd> {
        sys::open_to_write(CStr::from_bytes_until_nul(&self.text).unwrap_or_default())
    }

    pub(crate) fn open(&self) -> sys::Result<Fd> {
        sys::open(CStr::from_bytes_until_nul(&self.text).unwrap_or_default())
    }
}

/// Reads the `stat` file of `pid`.
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

/// Closes descriptors from `first` on but for those that are kept, one by one, for kernels without `close_range`.
pub(crate) fn close_from(first: u32, kept: &[Option<u32>]) {
    // Closing changes the list that is being read, so it is read again until it has nothing more to close.
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
