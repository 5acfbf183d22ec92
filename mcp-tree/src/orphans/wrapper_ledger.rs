//! The ledger of a process that wraps one server.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::format::{Exclusive, Record};
use super::ledger::title;
use super::locked_file::{LedgerFile, publish};
use crate::identity::{self, Cookie};
use crate::sys;

/// A ledger with one line, which other processes take over: one with a copy of the open file holds its
/// lock, and removes the name. If its name is removed, it is not restored.
///
/// # Drop
///
/// Removes the file: no server was started.
#[derive(Debug)]
pub struct WrapperLedger {
    file: LedgerFile,
    directory: OwnedFd,
    name: CString,
    record: Record,
}

impl WrapperLedger {
    /// Records that this server is about to start, in a cgroup of its own below this one, if any.
    /// `None` where no ledger can be kept, which is reported; fails if no descriptor or memory is
    /// available, or it must be `exclusive`.
    pub fn begin(
        server: &Cookie,
        cgroups: Option<&Path>,
        exclusive: Option<Exclusive>,
        is_unmarked: bool,
        unrecorded: fn(&io::Error),
    ) -> io::Result<Option<Self>> {
        let record = Record {
            serial: server.serial(),
            in_cgroup: cgroups.is_some(),
            is_unmarked,
            exclusive,
            ..Record::default()
        };
        match Self::create(record, cgroups) {
            Err(error) if sys::is_shortage(&error) || exclusive.is_some() => Err(error),
            ledger => Ok(ledger.inspect_err(unrecorded).ok()),
        }
    }

    fn create(record: Record, cgroups: Option<&Path>) -> io::Result<Self> {
        let host = identity::this_host()?;
        // The rest of `Visibility` is not read: each look into `/proc` delays the start.
        let parent = cgroups.ok_or_else(|| io::ErrorKind::NotFound.into());
        let title = title(host, sys::own_namespace()?, parent)?;
        let (file, directory) = publish(host, None, &title, &[Some(record)])?;
        let name = file.path.file_name().unwrap_or_default();
        let name = CString::new(name.as_bytes())?;
        Ok(Self {
            directory,
            name,
            record,
            file,
        })
    }

    pub fn without_cgroup(&mut self) {
        self.record.in_cgroup = false;
        self.write();
    }

    /// Records its process, which leads a process group with a watcher, or has a guardian.
    pub fn started(&mut self, pid: u32, start_time: Option<u64>, in_group: bool) {
        self.record.in_group = in_group;
        self.record.process = start_time.map(|start_time| (pid, start_time));
        self.write();
    }

    /// Keeps the file and its lock, which is released with the last copy of the descriptor: for a server
    /// that may live.
    pub fn leave(self) {
        std::mem::forget(self);
    }

    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.locked.as_fd()
    }

    /// Returns its directory, and its name there.
    pub fn place(&self) -> (BorrowedFd<'_>, &CString) {
        (self.directory.as_fd(), &self.name)
    }

    /// Writes the line again. If that fails, the old line is less exact, but not wrong.
    fn write(&self) {
        let _ = self.file.write(0, Some(self.record));
    }
}

impl Drop for WrapperLedger {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file.path);
    }
}
