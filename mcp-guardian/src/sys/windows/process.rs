//! A process: started inside of a job, waited for, named.

use std::ffi::{OsStr, OsString, c_void};
use std::io;
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::{Path, PathBuf};
use std::ptr;
use std::thread;

use windows_sys::Win32::Foundation::{
    FILETIME, HANDLE, HANDLE_FLAG_INHERIT, SetHandleInformation, WAIT_OBJECT_0,
};
use windows_sys::Win32::System::Threading::{
    CREATE_UNICODE_ENVIRONMENT, CreateProcessW, EXTENDED_STARTUPINFO_PRESENT, GetCurrentProcess,
    GetExitCodeProcess, GetProcessTimes, INFINITE, OpenProcess, PROCESS_ACCESS_RIGHTS,
    PROCESS_INFORMATION, PROCESS_NAME_WIN32, PROCESS_QUERY_INFORMATION, PROCESS_SYNCHRONIZE,
    QueryFullProcessImageNameW, RegisterWaitForSingleObject, STARTF_USESTDHANDLES, STARTUPINFOEXW,
    UnregisterWait, WT_EXECUTEONLYONCE, WaitForSingleObject,
};

use super::attributes::Attributes;
use super::check;
use super::console;
use super::job::Job;
use super::port::{self, Heard};

#[derive(Debug)]
pub struct Start<'a> {
    pub program: PathBuf,
    /// Ends with one zero; the environment ends with two.
    pub command_line: Vec<u16>,
    pub environment: Vec<u16>,
    pub cwd: Option<&'a Path>,
    pub streams: [OwnedHandle; 3],
}

/// A process that is held, so that its pid cannot be reused.
#[derive(Debug)]
pub struct Process {
    handle: OwnedHandle,
    pid: u32,
}

#[derive(Debug)]
pub struct Wait {
    registered: usize,
    _process: OwnedHandle,
}

impl Start<'_> {
    /// Starts it in `job`, where it is from its creation on. The streams are closed in this process.
    pub fn inside(mut self, job: &Job) -> io::Result<Process> {
        let (jobs, streams) = (
            [job.raw()],
            self.streams.each_ref().map(OwnedHandle::as_raw_handle),
        );
        let mut attributes = Attributes::new(&jobs, &streams)?;
        let mut startup = STARTUPINFOEXW::default();
        startup.StartupInfo.cb = size_of::<STARTUPINFOEXW>() as u32;
        startup.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
        [
            startup.StartupInfo.hStdInput,
            startup.StartupInfo.hStdOutput,
            startup.StartupInfo.hStdError,
        ] = streams;
        startup.lpAttributeList = attributes.as_mut_ptr();
        let program = zero_ended(self.program.as_os_str());
        let cwd = self.cwd.map(|dir| zero_ended(dir.as_os_str()));
        let flags = CREATE_UNICODE_ENVIRONMENT | EXTENDED_STARTUPINFO_PRESENT | console::flags();
        for stream in streams {
            // SAFETY: the handle is open, and this process' own.
            check(unsafe {
                SetHandleInformation(stream, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT)
            })?;
        }
        let mut started = PROCESS_INFORMATION::default();
        // SAFETY: all strings end with a zero and the environment with two; the command line is
        // ours to be written to; the startup information is of the size that it says, and what
        // its attributes point to lives until the end of this function.
        check(unsafe {
            CreateProcessW(
                program.as_ptr(),
                self.command_line.as_mut_ptr(),
                ptr::null(),
                ptr::null(),
                1,
                flags,
                self.environment.as_ptr().cast(),
                cwd.as_ref().map_or(ptr::null(), |dir| dir.as_ptr()),
                &raw const startup.StartupInfo,
                &mut started,
            )
        })?;
        // SAFETY: the handle was just made, for us alone.
        let handle = unsafe { OwnedHandle::from_raw_handle(started.hProcess) };
        // SAFETY: as above.
        drop(unsafe { OwnedHandle::from_raw_handle(started.hThread) });
        Ok(Process {
            handle,
            pid: started.dwProcessId,
        })
    }
}

impl Process {
    /// Holds the process of this number, if it is in `job`.
    pub fn in_job(pid: u32, job: &Job) -> Option<Self> {
        const RIGHTS: u32 = PROCESS_QUERY_INFORMATION | PROCESS_SYNCHRONIZE;
        let process = Self::open(pid, RIGHTS).ok()?;
        matches!(job.has(process.raw()), Ok(true)).then_some(process)
    }

    pub(super) fn open(pid: u32, rights: PROCESS_ACCESS_RIGHTS) -> io::Result<Self> {
        // SAFETY: no pointers.
        let handle = unsafe { OpenProcess(rights, 0, pid) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle was just made, for us alone.
        let handle = unsafe { OwnedHandle::from_raw_handle(handle) };
        Ok(Self { handle, pid })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn name(&self) -> Option<String> {
        let mut path = [0_u16; 1024];
        let mut length = path.len() as u32;
        // SAFETY: the handle is open, and there is room for `length` units.
        check(unsafe {
            QueryFullProcessImageNameW(
                self.raw(),
                PROCESS_NAME_WIN32,
                path.as_mut_ptr(),
                &mut length,
            )
        })
        .ok()?;
        let path = OsString::from_wide(path.get(..length as usize)?);
        let name = Path::new(&path).file_name()?;
        Some(name.to_string_lossy().into_owned())
    }

    pub fn start_time(&self) -> Option<u64> {
        start_time(self.raw())
    }

    pub(super) fn own_start_time() -> Option<u64> {
        // SAFETY: no pointers.
        start_time(unsafe { GetCurrentProcess() })
    }

    /// Returns its exit code, once it has ended.
    pub fn exit_code(&self) -> io::Result<u32> {
        let mut code = 0;
        // SAFETY: the handle is open, and there is room for the answer.
        check(unsafe { GetExitCodeProcess(self.raw(), &mut code) })?;
        Ok(code)
    }

    pub fn has_ended(&self) -> bool {
        // SAFETY: the handle is open.
        unsafe { WaitForSingleObject(self.raw(), 0) == WAIT_OBJECT_0 }
    }

    /// Asks it and its process group to end, on a separate thread, and calls `tell` with the
    /// console's answer, which may never come.
    pub fn interrupt(&self, tell: impl FnOnce(io::Result<()>) + Send + 'static) -> io::Result<()> {
        let (process, pid) = (self.handle.try_clone()?, self.pid);
        let thread = thread::Builder::new().name("mcp-lifecycle-asks".to_owned());
        thread
            .spawn(move || {
                tell(console::interrupt(pid));
                // Open until then, so that the pid is not reused.
                drop(process);
            })
            .map(drop)
    }

    /// Has the callback of `heard` called when it has ended.
    pub fn wait(&self, heard: &Heard) -> io::Result<Wait> {
        let process = self.handle.try_clone()?;
        let context = ptr::without_provenance::<c_void>(heard.key());
        let mut registered = ptr::null_mut();
        // SAFETY: the handle is open until the wait is over; what is called follows no pointer.
        check(unsafe {
            RegisterWaitForSingleObject(
                &mut registered,
                process.as_raw_handle(),
                Some(has_ended),
                context,
                INFINITE,
                WT_EXECUTEONLYONCE,
            )
        })?;
        Ok(Wait {
            registered: registered.addr(),
            _process: process,
        })
    }

    fn raw(&self) -> HANDLE {
        self.handle.as_raw_handle()
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        // SAFETY: it was registered, and is let go of once. A call that is under way at this
        // moment needs nothing of it.
        let _ = unsafe { UnregisterWait(ptr::without_provenance_mut(self.registered)) };
    }
}

fn start_time(process: HANDLE) -> Option<u64> {
    let mut times = [FILETIME::default(); 4];
    let [created, exited, kernel, user] = &mut times;
    // SAFETY: the handle is open, by the two callers, and there is room for the four answers.
    check(unsafe { GetProcessTimes(process, created, exited, kernel, user) }).ok()?;
    Some(u64::from(times[0].dwHighDateTime) << 32 | u64::from(times[0].dwLowDateTime))
}

/// Called on a thread of the system, with the key of the job.
unsafe extern "system" fn has_ended(key: *mut c_void, _timed_out: bool) {
    port::ended(key.addr());
}

fn zero_ended(text: &OsStr) -> Vec<u16> {
    text.encode_wide().chain([0]).collect()
}
