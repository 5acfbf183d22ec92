use std::fs;

/// Returns the machine ID, if any. Clones of a machine may share one.
pub(crate) fn id() -> String {
    read(&["/etc/machine-id", "/var/lib/dbus/machine-id"])
}

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

/// Returns whether a visible process has this pid.
pub(crate) fn is_alive(pid: &str) -> bool {
    use nix::errno::Errno;
    use nix::sys::signal::kill;
    let Ok(pid) = pid.parse::<i32>() else {
        return false;
    };
    // Signal 0: checks only.
    pid > 0 && kill(nix::unistd::Pid::from_raw(pid), None) != Err(Errno::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lives_is_never_taken_for_dead() {
        assert!(is_alive(&std::process::id().to_string()));
    }
}
