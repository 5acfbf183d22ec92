//! A job object: the kernel's own list of the processes of a server.

use std::ffi::c_void;
use std::io;
use std::mem::{size_of, size_of_val};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;

use windows_sys::Win32::Foundation::{ERROR_MORE_DATA, HANDLE};
use windows_sys::Win32::System::JobObjects::{
    CreateJobObjectW, IsProcessInJob, JOB_OBJECT_LIMIT_JOB_MEMORY,
    JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOBOBJECT_ASSOCIATE_COMPLETION_PORT,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JOBOBJECTINFOCLASS, JobObjectAssociateCompletionPortInformation,
    JobObjectBasicAccountingInformation, JobObjectBasicProcessIdList,
    JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject,
    TerminateJobObject,
};

use super::check;

/// A job that ends its processes when this, its only handle, is closed. They cannot leave it.
#[derive(Debug)]
pub struct Job {
    handle: OwnedHandle,
}

// The system's lists are read as words of 64 bits.
const _: () = assert!(size_of::<usize>() == 8);

const EXIT_CODE: u32 = 1;

const LISTED_MAX: usize = 4096;

impl Job {
    /// Creates one, whose processes may commit `memory` bytes together.
    pub fn new(memory: Option<u64>) -> io::Result<Self> {
        // SAFETY: neither attributes nor a name are given.
        let handle = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle was just made, for us alone.
        let handle = unsafe { OwnedHandle::from_raw_handle(handle) };
        let job = Self { handle };
        let mut information = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        let basic = &mut information.BasicLimitInformation;
        basic.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        if let Some(memory) = memory {
            basic.LimitFlags |= JOB_OBJECT_LIMIT_JOB_MEMORY;
            information.JobMemoryLimit = usize::try_from(memory).unwrap_or(usize::MAX);
        }
        job.set(JobObjectExtendedLimitInformation, &information)?;
        Ok(job)
    }

    pub(super) fn report_to(&self, port: HANDLE, key: usize) -> io::Result<()> {
        let association = JOBOBJECT_ASSOCIATE_COMPLETION_PORT {
            CompletionKey: ptr::without_provenance_mut(key),
            CompletionPort: port,
        };
        self.set(JobObjectAssociateCompletionPortInformation, &association)
    }

    /// Ends all of its processes. Does not wait for them.
    pub fn terminate(&self) -> io::Result<()> {
        // SAFETY: the handle is open.
        check(unsafe { TerminateJobObject(self.raw(), EXIT_CODE) })
    }

    pub fn active(&self) -> io::Result<u32> {
        let mut accounts = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        let size = size_of_val(&accounts);
        let accounts_at = ptr::from_mut(&mut accounts).cast();
        self.query(JobObjectBasicAccountingInformation, accounts_at, size)?;
        Ok(accounts.ActiveProcesses)
    }

    /// Returns the pids of its processes that have not ended, at most 4,096.
    pub fn members(&self) -> io::Result<Vec<u32>> {
        let mut room = vec![0; 1 + LISTED_MAX];
        Ok(self.list(&mut room)?.collect())
    }

    /// Calls `note` with at most 64 of them. Neither waits nor allocates.
    pub fn first_members(&self, note: impl FnMut(u32)) {
        let mut room = [0; 1 + 64];
        if let Ok(members) = self.list(&mut room) {
            members.for_each(note);
        }
    }

    fn list<'a>(&self, room: &'a mut [usize]) -> io::Result<impl Iterator<Item = u32> + 'a> {
        let size = size_of_val(room);
        let at = room.as_mut_ptr().cast();
        if let Err(error) = self.query(JobObjectBasicProcessIdList, at, size)
            && error.raw_os_error() != Some(ERROR_MORE_DATA.cast_signed())
        {
            return Err(error);
        }
        // Two counts of 32 bits, those assigned and those listed, then the numbers.
        let (counts, listed) = room.split_at(1);
        let count = counts[0]
            .to_le_bytes()
            .last_chunk()
            .map_or(0, |count| u32::from_le_bytes(*count));
        let listed = listed.iter().take(count as usize);
        Ok(listed.filter_map(|pid| u32::try_from(*pid).ok()))
    }

    pub(super) fn has(&self, process: HANDLE) -> io::Result<bool> {
        let mut is_in = 0;
        // SAFETY: both handles are open, and there is room for the answer.
        check(unsafe { IsProcessInJob(process, self.raw(), &mut is_in) })?;
        Ok(is_in != 0)
    }

    pub(super) fn raw(&self) -> HANDLE {
        self.handle.as_raw_handle()
    }

    fn set<T>(&self, what: JOBOBJECTINFOCLASS, value: &T) -> io::Result<()> {
        let value = ptr::from_ref(value).cast::<c_void>();
        let size = size_of::<T>() as u32;
        // SAFETY: `value` is what this kind of information is, by the two callers.
        check(unsafe { SetInformationJobObject(self.raw(), what, value, size) })
    }

    fn query(&self, what: JOBOBJECTINFOCLASS, at: *mut c_void, size: usize) -> io::Result<()> {
        // SAFETY: there is room for `size` bytes at `at`, by the two callers, which ask for plain
        // numbers.
        check(unsafe {
            QueryInformationJobObject(self.raw(), what, at, size as u32, ptr::null_mut())
        })
    }
}
