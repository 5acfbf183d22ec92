//! Attributes of a start by `CreateProcessW`: the job, and the inherited handles.

use std::io;
use std::marker::PhantomData;
use std::mem::size_of_val;
use std::ptr;

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::Threading::{
    DeleteProcThreadAttributeList, InitializeProcThreadAttributeList, LPPROC_THREAD_ATTRIBUTE_LIST,
    PROC_THREAD_ATTRIBUTE_HANDLE_LIST, PROC_THREAD_ATTRIBUTE_JOB_LIST, UpdateProcThreadAttribute,
};

pub(super) struct Attributes<'a> {
    /// Aligned as the system's own allocations are.
    list: Vec<u128>,
    values: PhantomData<&'a [HANDLE]>,
}

impl<'a> Attributes<'a> {
    pub(super) fn new(job: &'a [HANDLE; 1], handles: &'a [HANDLE]) -> io::Result<Self> {
        let mut size = 0;
        // SAFETY: without a list the call only returns the size. It fails, as documented.
        let _ = unsafe { InitializeProcThreadAttributeList(ptr::null_mut(), 2, 0, &mut size) };
        let mut list = vec![0_u128; size.div_ceil(size_of::<u128>()).max(1)];
        // SAFETY: there is room for `size` bytes.
        super::check(unsafe {
            InitializeProcThreadAttributeList(list.as_mut_ptr().cast(), 2, 0, &mut size)
        })?;
        let values = PhantomData;
        let mut attributes = Self { list, values };
        attributes.set(PROC_THREAD_ATTRIBUTE_JOB_LIST, job)?;
        attributes.set(PROC_THREAD_ATTRIBUTE_HANDLE_LIST, handles)?;
        Ok(attributes)
    }

    pub(super) fn as_mut_ptr(&mut self) -> LPPROC_THREAD_ATTRIBUTE_LIST {
        self.list.as_mut_ptr().cast()
    }

    fn set(&mut self, what: u32, handles: &'a [HANDLE]) -> io::Result<()> {
        let (at, size) = (handles.as_ptr().cast(), size_of_val(handles));
        let list = self.as_mut_ptr();
        // SAFETY: the list was initialized for two attributes, and the handles live as long as it
        // does.
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
