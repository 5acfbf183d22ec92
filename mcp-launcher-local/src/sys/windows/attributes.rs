//! What `CreateProcessW` is told besides: the job that a process starts in, and the handles that it gets.

use std::ffi::c_void;
use std::io;
use std::mem::size_of_val;
use std::ptr;

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::Threading::{
    DeleteProcThreadAttributeList, InitializeProcThreadAttributeList, LPPROC_THREAD_ATTRIBUTE_LIST,
    PROC_THREAD_ATTRIBUTE_HANDLE_LIST, PROC_THREAD_ATTRIBUTE_JOB_LIST, UpdateProcThreadAttribute,
};

/// A list of attributes, which points to what it was given.
pub(super) struct Attributes<'a> {
    /// Aligned as the system's own allocations are.
    list: Vec<u128>,
    job: &'a [HANDLE; 1],
    handles: &'a [HANDLE],
}

impl<'a> Attributes<'a> {
    /// Room for both.
    pub(super) fn new(job: &'a [HANDLE; 1], handles: &'a [HANDLE]) -> io::Result<Self> {
        let mut size = 0;
        // SAFETY: without a list it is only asked for the size. It fails, as documented.
        let _ = unsafe { InitializeProcThreadAttributeList(ptr::null_mut(), 2, 0, &mut size) };
        let mut list = vec![0_u128; size.div_ceil(size_of::<u128>()).max(1)];
        // SAFETY: there is room for `size` bytes.
        super::check(unsafe {
            InitializeProcThreadAttributeList(list.as_mut_ptr().cast(), 2, 0, &mut size)
        })?;
        Ok(Self { list, job, handles })
    }

    /// The process starts in the job. Fails before Windows 10, which has no such attribute.
    pub(super) fn start_in_job(&mut self) -> io::Result<()> {
        let (at, size) = (self.job.as_ptr().cast(), size_of_val(self.job));
        self.update(PROC_THREAD_ATTRIBUTE_JOB_LIST, at, size)
    }

    /// Of all handles that may be inherited the process gets these alone.
    pub(super) fn inherit_only(&mut self) -> io::Result<()> {
        let (at, size) = (self.handles.as_ptr().cast(), size_of_val(self.handles));
        self.update(PROC_THREAD_ATTRIBUTE_HANDLE_LIST, at, size)
    }

    pub(super) fn as_mut_ptr(&mut self) -> LPPROC_THREAD_ATTRIBUTE_LIST {
        self.list.as_mut_ptr().cast()
    }

    fn update(&mut self, what: u32, at: *const c_void, size: usize) -> io::Result<()> {
        let list = self.as_mut_ptr();
        // SAFETY: the list was initialized for two attributes, and there are `size` bytes at
        // `at`, which live as long as the list does.
        super::check(unsafe {
            UpdateProcThreadAttribute(
                list,
                0,
                what as usize,
                at,
                size,
                ptr::null_mut(),
                ptr::null(),
            )
        })
    }
}

impl Drop for Attributes<'_> {
    fn drop(&mut self) {
        let list = self.as_mut_ptr();
        // SAFETY: it was initialized, and is not used any more.
        unsafe { DeleteProcThreadAttributeList(list) };
    }
}
