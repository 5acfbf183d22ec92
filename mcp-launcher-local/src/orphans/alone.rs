//! The ledger of a process that wraps one server.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::directory::{self, Refused};
use super::format::{self, Record};
use super::ledger::title;
use super::page::{Page, publish};
use super::sight::own_namespace;
use crate::identity::{self, Cookie};

/// A ledger with one line, which others take over: whoever has a copy of the open
/// file keeps its lock, and the name is theirs to remove.
///
/// It is not watched: when a cleaner removes it, it does not come back.
///
/// # Drop
///
/// Removes it: no server was started.
#[derive(Debug)]
pub(crate) struct Alone {
    page: Page,
    directory: OwnedFd,
    name: CString,
    line: u64,
    record: Record,
}

impl Alone {
    /// Writes down that this server is about to start, with a cgroup of its own below this one if there is to be any.
    ///
    /// # Errors
    ///
    /// No directory takes it.
    pub(crate) fn begin(server: &Cookie, cgroups: Option<&Path>) -> io::Result<Self> {
        let host = identity::this_host()?;
        // Nothing else of its sight: each look into `/proc` is on the way of a start.
        let parent = cgroups.ok_or_else(|| io::ErrorKind::NotFound.into());
        let mut text = title(host, own_namespace()?, parent)?;
        let line = text.len() as u64;
        let record = Record {
            serial: server.serial(),
            process: None,
            in_cgroup: cgroups.is_some(),
        };
        text.push_str(&String::from_utf8_lossy(&format::line(record)));
        let page = publish(host, None, text.as_bytes())?;
        let (parent, name) = (page.path.parent(), page.path.file_name());
        let (Some(parent), Some(name)) = (parent, name) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let directory = directory::open_own(parent).map_err(|refused| match refused {
            Refused::Unusable(error) => error,
            Refused::Missing | Refused::Foreign(_) => io::ErrorKind::NotFound.into(),
        })?;
        let name = CString::new(name.as_bytes())?;
        Ok(Self {
            directory,
            name,
            line,
            record,
            page,
        })
    }

    /// The server has no cgroup of its own after all.
    pub(crate) fn without_cgroup(&mut self) {
        self.record.in_cgroup = false;
        self.write();
    }

    /// The server runs.
    pub(crate) fn started(&mut self, pid: u32, start_time: Option<u64>) {
        self.record.process = start_time.map(|start_time| (pid, start_time));
        self.write();
    }

    /// Lets the file be, with its lock, which others may have in common, and which is let go
    /// with the last descriptor: for a server that may live.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }

    /// The open file.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.page.file.as_fd()
    }

    /// The directory that it is in, and its name there.
    pub(crate) fn place(&self) -> (BorrowedFd<'_>, &CString) {
        (self.directory.as_fd(), &self.name)
    }

    /// A line that was not written again says less, and nothing wrong.
    fn write(&self) {
        let _ = self
            .page
            .file
            .write_all_at(&format::line(self.record), self.line);
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.page.path);
    }
}
