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

/// Which machine, boot and process namespace this is, where that can be told:
/// two daemons that answer the same can see each other's processes.
pub(super) fn machine() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
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
