//! The identity of this machine, and of its boot.

use std::fs;

/// The machine's own id, or empty where there is none. Clones of a machine and
/// containers may share one, so that it alone proves nothing.
pub(crate) fn id() -> String {
    read(&["/etc/machine-id", "/var/lib/dbus/machine-id"])
}

/// The id of this boot of the kernel, which no other machine has.
pub(crate) fn boot() -> String {
    read(&["/proc/sys/kernel/random/boot_id"])
}

fn read(candidates: &[&str]) -> String {
    let text = candidates.iter().find_map(|path| {
        let text = fs::read_to_string(path).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    });
    text.unwrap_or_default()
}

/// Returns whether a process of this number lives, as far as can be seen from here.
#[cfg(unix)]
pub(crate) fn is_alive(pid: &str) -> bool {
    use nix::errno::Errno;
    use nix::sys::signal::kill;
    let Ok(pid) = pid.parse::<i32>() else {
        return false;
    };
    // No signal is sent, only looked whether one could be.
    pid > 0 && kill(nix::unistd::Pid::from_raw(pid), None) != Err(Errno::ESRCH)
}

/// Nobody can be looked for here, and who is not seen may live: no container is an orphan for that.
#[cfg(not(unix))]
pub(crate) fn is_alive(_: &str) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lives_is_never_taken_for_dead() {
        assert!(is_alive(&std::process::id().to_string()));
    }
}
