//! What this machine is like, as clients are told.

use std::path::{Path, PathBuf};

use crate::protocol::{Capabilities, EnvironmentInfo, Shell, path_to_uri};

/// What this machine is like.
pub(super) fn environment_info() -> EnvironmentInfo {
    let uri = |path: PathBuf| path.to_str().map(path_to_uri);
    EnvironmentInfo {
        executor_version: Some(concat!("mcp-executor ", env!("CARGO_PKG_VERSION")).to_owned()),
        cwd: std::env::current_dir().ok().and_then(uri),
        platform_os: Some(std::env::consts::OS.to_owned()),
        shell: Some(shell(std::env::var_os("SHELL").map(PathBuf::from))),
        user_home_dir: std::env::home_dir().and_then(uri),
        temp_dir: uri(std::env::temp_dir()),
        capabilities: Some(Capabilities {}),
    }
}

/// What only one daemon at a time can say of itself, where that can be told: it
/// has this address, and can see and end what the one before it left.
pub(super) fn machine(address: &str) -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = |name| std::fs::read_link(format!("/proc/self/ns/{name}")).ok();
    let (pid, net) = (namespace("pid")?, namespace("net")?);
    let (boot, pid, net) = (boot.trim(), pid.display(), net.display());
    let user = nix::unistd::geteuid();
    Some(format!("{boot} {pid} {net} uid:{user} {address}"))
}

/// The shell that `SHELL` names, where that is a program; the system's otherwise.
fn shell(named: Option<PathBuf>) -> Shell {
    let usable = |path: &PathBuf| path.is_absolute() && path.is_file() && path.to_str().is_some();
    let path = named.filter(usable);
    let path = path.as_deref().unwrap_or(Path::new("/bin/sh"));
    let name = path.file_name().unwrap_or_default();
    Shell {
        name: name.to_string_lossy().into_owned(),
        path: path.to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_that_is_none_is_replaced_by_the_system_s() {
        let named = |path: &str| shell(Some(PathBuf::from(path))).path;
        assert_eq!(named("/bin/sh"), "/bin/sh");
        assert_eq!(named("/no/such/shell"), "/bin/sh");
        assert_eq!(named("sh"), "/bin/sh");
        assert_eq!(shell(None).name, "sh");
    }
}
