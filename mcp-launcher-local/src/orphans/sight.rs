//! The sight of this process: the part of the machine's processes that it can see.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::sys;

/// The first PID namespace of every boot (`PROC_PID_INIT_INO` in Linux). All
/// processes of the machine are in it.
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;

const OTHER_PROC: &str = "the /proc here is that of another PID namespace";

/// From where this process looks.
#[derive(Debug, Clone)]
pub(super) struct Sight {
    pub(super) boot_id: String,
    /// When this boot began, in seconds of the clock.
    pub(super) boot_time: i64,
    /// The PID namespace of this process.
    pub(super) namespace: u64,
    /// `true` if `/proc` shows that namespace, so that its numbers mean here what
    /// they mean there.
    pub(super) proc_is_own: bool,
    /// `true` if `/proc` may leave out processes of this user.
    pub(super) proc_hides: bool,
}

impl Sight {
    /// Finds out.
    pub(super) fn look() -> io::Result<Self> {
        let boot_id = sys::text_of("/proc/sys/kernel/random/boot_id")?;
        let status = sys::text_of("/proc/self/status")?;
        let mounts = sys::text_of("/proc/self/mountinfo")?;
        Ok(Self {
            boot_id: boot_id.trim_end().to_owned(),
            boot_time: boot_time(&sys::text_of("/proc/stat")?),
            namespace: own_namespace()?,
            proc_is_own: shows_own_namespace(&status),
            proc_hides: hides(&mounts),
        })
    }

    /// Returns whether the numbers of that PID namespace are those that `/proc` shows.
    pub(super) fn counts_as(&self, namespace: u64) -> bool {
        self.proc_is_own && namespace == self.namespace
    }

    /// Returns whether all processes of that PID namespace are visible, each under the
    /// number by which it is reached.
    ///
    /// # Errors
    ///
    /// In words, why not.
    pub(super) fn covers(&self, namespace: u64) -> Result<(), String> {
        if !self.proc_is_own {
            return Err(OTHER_PROC.to_owned());
        }
        // One with the same number is the same, or the successor of one that
        // has ended with everybody inside.
        if namespace == self.namespace || self.namespace == FIRST_NAMESPACE {
            return Ok(());
        }
        Err(format!(
            "its processes are in another PID namespace (pid:[{namespace}]) and not visible here"
        ))
    }
}

/// The PID namespace of this process, by its inode number.
pub(super) fn own_namespace() -> io::Result<u64> {
    namespace_at(Path::new("/proc/self/ns/pid"), Path::new("/proc/self"))
}

/// The PID namespace of this process, whose numbers `/proc` shows.
///
/// # Errors
///
/// It shows those of another one, or could not be read.
pub(crate) fn home() -> io::Result<u64> {
    static HOME: OnceLock<Home> = OnceLock::new();
    let device = fs::metadata(PROC)?.dev();
    let process = std::process::id();
    let is_same = |home: &&Home| home.device == device && home.process == process;
    if let Some(home) = HOME.get().filter(is_same) {
        return Ok(home.namespace);
    }
    let proc = File::open(PROC)?;
    if !shows_own_namespace(&sys::text_of("/proc/self/status")?) {
        return Err(io::Error::other(OTHER_PROC));
    }
    let namespace = own_namespace()?;
    // It stays the same for the life of this process, and so does that of a mounted `/proc`.
    if proc.metadata()?.dev() == device {
        HOME.get_or_init(|| Home {
            _proc: proc,
            device,
            process,
            namespace,
        });
    }
    Ok(namespace)
}

const PROC: &str = "/proc";

/// A `/proc` that shows the PID namespace of this process.
struct Home {
    /// Open, so that no other file system has its number.
    _proc: File,
    device: u64,
    /// The process that has looked: a child of it by `fork` may be in another namespace.
    process: u32,
    namespace: u64,
}

/// Returns whether `/proc` shows every process that there is in the PID namespace of this
/// process, and below.
///
/// # Errors
///
/// It does not, or could not be read.
pub(crate) fn shows_all() -> io::Result<()> {
    home()?;
    let mounts = sys::text_of("/proc/self/mountinfo")?;
    match hides(&mounts) && !nix::unistd::geteuid().is_root() {
        true => Err(io::Error::other("the /proc here hides processes (hidepid)")),
        false => Ok(()),
    }
}

/// Returns whether it is the first process of a PID namespace below that of this one.
pub(crate) fn is_first_of_another_namespace(pid: u32) -> bool {
    pid != 1 && inner(pid).1 == 1
}

/// The PID namespace of a process.
pub(crate) fn namespace_of(pid: u32) -> io::Result<u64> {
    namespace_at(&Short::path(pid, "/ns/pid"), &Short::path(pid, ""))
}

fn namespace_at(namespace: &Path, process: &Path) -> io::Result<u64> {
    match fs::metadata(namespace) {
        Ok(namespace) => Ok(namespace.ino()),
        // A kernel without them: there is one, and it is everybody's.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::metadata(process).map(|_| FIRST_NAMESPACE)
        }
        Err(error) => Err(error),
    }
}

/// A path below `/proc/PID` that is nowhere allocated: an end asks every process of the machine.
struct Short {
    bytes: [u8; Self::MOST],
    len: usize,
}

impl Short {
    /// `/proc/`, ten digits, and the name of a file.
    const MOST: usize = 32;

    fn path(pid: u32, file: &str) -> Self {
        let mut path = Self {
            bytes: [0; Self::MOST],
            len: 0,
        };
        let mut rest = path.bytes.as_mut_slice();
        let written = write!(rest, "/proc/{pid}{file}");
        debug_assert!(written.is_ok(), "{file} is too long");
        path.len = Self::MOST - rest.len();
        path
    }
}

impl Deref for Short {
    type Target = Path;

    fn deref(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.bytes[..self.len]))
    }
}

/// The PID namespace of a process, and the number it has there.
pub(super) fn inner(pid: u32) -> (Option<u64>, u32) {
    let status = sys::text_of(format!("/proc/{pid}/status")).unwrap_or_default();
    let inner = pids(&status).and_then(|mut pids| pids.next_back()?.parse().ok());
    (namespace_of(pid).ok(), inner.unwrap_or(pid))
}

/// The numbers of a process by its `/proc/PID/status`: first as that `/proc`
/// counts, last as it counts itself. Absent without PID namespaces.
fn pids(status: &str) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.map(str::split_ascii_whitespace)
}

fn shows_own_namespace(status: &str) -> bool {
    pids(status).is_none_or(|pids| pids.count() == 1)
}

/// By the options of the last mount on `/proc` (proc(5), `hidepid`).
fn hides(mountinfo: &str) -> bool {
    let on_proc = |line: &&str| line.split(' ').nth(4) == Some("/proc");
    let Some(mount) = mountinfo.lines().rfind(on_proc) else {
        return true;
    };
    let options = mount.rsplit(' ').next().unwrap_or_default();
    let hidden = options
        .split(',')
        .find_map(|option| option.strip_prefix("hidepid="));
    hidden.is_some_and(|hidden| !matches!(hidden, "0" | "off"))
}

/// The line `btime`, in seconds of the clock; far in the past if there is none.
fn boot_time(stat: &str) -> i64 {
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "));
    line.and_then(|time| time.trim().parse().ok())
        .unwrap_or(i64::MIN)
}

/// Processes of this user that `/proc` does not show, found by their numbers.
/// Nothing is sent to them.
pub(super) fn hidden() -> io::Result<Vec<u32>> {
    let max = sys::text_of("/proc/sys/kernel/pid_max")?;
    let max: u32 = max.trim().parse().map_err(io::Error::other)?;
    let is_hidden = |&pid: &u32| {
        sys::may_signal(pid)
            && !fs::exists(format!("/proc/{pid}")).unwrap_or(false)
            && sys::is_running(pid)
    };
    Ok((2..=max).filter(is_hidden).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(namespace: u64, proc_is_own: bool) -> Sight {
        Sight {
            boot_id: String::new(),
            boot_time: 0,
            namespace,
            proc_is_own,
            proc_hides: false,
        }
    }

    #[test]
    fn one_sees_the_own_namespace_and_the_first_one_sees_all() {
        assert_eq!(sight(7, true).covers(7), Ok(()));
        assert_eq!(sight(FIRST_NAMESPACE, true).covers(7), Ok(()));
        assert!(sight(7, true).covers(8).is_err());
        assert!(sight(7, true).covers(FIRST_NAMESPACE).is_err());
        assert!(sight(7, false).covers(7).is_err());
        assert!(sight(FIRST_NAMESPACE, false).covers(7).is_err());
    }

    #[test]
    fn a_proc_of_an_outer_namespace_is_known_by_two_numbers() {
        assert!(shows_own_namespace("Name:\tx\nNSpid:\t42\nNSpgid:\t1\t2\n"));
        assert!(!shows_own_namespace("NSpid:\t42\t1\n"));
        assert!(shows_own_namespace("Name:\tx\n"), "without namespaces");
    }

    #[test]
    fn the_mount_on_top_says_what_is_hidden() {
        let plain = "20 1 0:5 / /proc rw,nosuid shared:2 - proc proc rw";
        let hidden = "30 1 0:6 / /proc rw - proc proc rw,gid=4,hidepid=invisible";
        assert!(!hides(plain));
        assert!(hides(&format!("{plain}\n{hidden}\n")));
        assert!(!hides(&format!("{hidden}\n{plain}\n")));
        assert!(!hides(&hidden.replace("invisible", "off")));
        assert!(hides(""), "who knows");
    }

    #[test]
    fn this_process_sees_itself() {
        let sight = Sight::look().unwrap();
        assert_eq!(sight.covers(sight.namespace), Ok(()));
        assert!(sight.boot_time > 0);
        let (namespace, pid) = inner(std::process::id());
        assert_eq!(
            (namespace, pid),
            (Some(sight.namespace), std::process::id())
        );
    }
}
