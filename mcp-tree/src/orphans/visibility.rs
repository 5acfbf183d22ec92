//! The processes of the machine that are visible to this process.

use std::{fs, io};

use crate::sys::{self, FIRST_NAMESPACE, OTHER_PROC};

/// The boot, PID namespace and `/proc` of this process.
#[derive(Debug, Clone)]
pub(super) struct Visibility {
    pub(super) boot_id: String,
    pub(super) boot_time: i64,
    pub(super) namespace: u64,
    /// `true` if `/proc` shows that namespace, so that its pids are valid here.
    pub(super) proc_is_own: bool,
    /// `true` if `/proc` may hide processes of this user.
    pub(super) proc_hides: bool,
}

impl Visibility {
    pub(super) fn look() -> io::Result<Self> {
        let boot_id = sys::boot_id()?;
        let status = sys::text_of("/proc/thread-self/status")?;
        let mounts = sys::text_of("/proc/thread-self/mountinfo")?;
        Ok(Self {
            boot_id,
            boot_time: boot_time(&sys::text_of("/proc/stat")?),
            namespace: sys::own_namespace()?,
            proc_is_own: sys::shows_own_namespace(&status),
            proc_hides: hides(&mounts),
        })
    }

    /// Returns whether `/proc` shows the pids of that PID namespace.
    pub(super) fn counts_as(&self, namespace: u64) -> bool {
        self.proc_is_own && namespace == self.namespace
    }

    /// Checks that all processes of that PID namespace are visible, each under a pid that is valid here.
    pub(super) fn covers(&self, namespace: u64) -> Result<(), String> {
        if !self.proc_is_own {
            return Err(OTHER_PROC.to_owned());
        }
        // The number of a namespace is reused only after all its processes have ended.
        if namespace == self.namespace || self.namespace == FIRST_NAMESPACE {
            return Ok(());
        }
        Err(format!(
            "its processes are in another PID namespace (pid:[{namespace}]) and not visible here"
        ))
    }
}

/// Checks that `/proc` shows every process of this PID namespace and those below it.
pub fn shows_all() -> io::Result<()> {
    sys::home()?;
    let mounts = sys::text_of("/proc/thread-self/mountinfo")?;
    match hides(&mounts) && !nix::unistd::geteuid().is_root() {
        true => Err(io::Error::other("the /proc here hides processes (hidepid)")),
        false => Ok(()),
    }
}

/// Returns whether it is the first process of a PID namespace below this one.
pub fn is_first_of_another_namespace(pid: u32) -> bool {
    pid != 1 && inner(pid).1 == 1
}

/// Returns the PID namespace of a process, and its pid there.
pub(super) fn inner(pid: u32) -> (Option<u64>, u32) {
    let status = sys::text_of(format!("/proc/{pid}/status")).unwrap_or_default();
    let inner = sys::numbers_in(&status).and_then(|mut pids| pids.next_back()?.parse().ok());
    (sys::namespace_of(pid).ok(), inner.unwrap_or(pid))
}

/// Returns whether the last mount on `/proc` hides processes (`hidepid`, proc(5)).
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

/// Returns the time of the boot, in seconds since 1970; far in the past if it is unknown.
fn boot_time(stat: &str) -> i64 {
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "));
    line.and_then(|time| time.trim().parse().ok())
        .unwrap_or(i64::MIN)
}

/// Finds processes of this user that `/proc` does not show, by trying all pids.
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

    fn visibility(namespace: u64, proc_is_own: bool) -> Visibility {
        Visibility {
            boot_id: String::new(),
            boot_time: 0,
            namespace,
            proc_is_own,
            proc_hides: false,
        }
    }

    #[test]
    fn the_first_namespace_covers_all_others() {
        assert_eq!(visibility(7, true).covers(7), Ok(()));
        assert_eq!(visibility(FIRST_NAMESPACE, true).covers(7), Ok(()));
        assert!(visibility(7, true).covers(8).is_err());
        assert!(visibility(7, true).covers(FIRST_NAMESPACE).is_err());
        assert!(visibility(7, false).covers(7).is_err());
        assert!(visibility(FIRST_NAMESPACE, false).covers(7).is_err());
    }

    #[test]
    fn the_last_mount_on_proc_decides() {
        let plain = "20 1 0:5 / /proc rw,nosuid shared:2 - proc proc rw";
        let hidden = "30 1 0:6 / /proc rw - proc proc rw,gid=4,hidepid=invisible";
        assert!(!hides(plain));
        assert!(hides(&format!("{plain}\n{hidden}\n")));
        assert!(!hides(&format!("{hidden}\n{plain}\n")));
        assert!(!hides(&hidden.replace("invisible", "off")));
        assert!(hides(""), "unknown");
    }

    #[test]
    fn this_process_is_visible_to_itself() {
        let visibility = Visibility::look().unwrap();
        assert_eq!(visibility.covers(visibility.namespace), Ok(()));
        assert!(visibility.boot_time > 0);
        let (namespace, pid) = inner(std::process::id());
        assert_eq!(
            (namespace, pid),
            (Some(visibility.namespace), std::process::id())
        );
    }
}
