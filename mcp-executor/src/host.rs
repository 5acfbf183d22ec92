use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mcp_guardian::state;

use crate::protocol::{Capabilities, EnvironmentInfo, Shell, path_to_uri};

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

pub(super) fn records() -> Option<(PathBuf, File)> {
    let usable = |path: PathBuf| {
        let directory = state::make(&path).ok()?;
        Some((path, directory.into()))
    };
    state::candidates().into_iter().find_map(usable)
}

/// Returns a value that only one daemon at a time can have, if available: the one at this address
/// that can see and end its predecessor's leftovers.
pub(super) fn machine(address: &str) -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = |name| std::fs::read_link(format!("/proc/thread-self/ns/{name}")).ok();
    let namespaces = [namespace("pid")?, namespace("net")?, namespace("mnt")?];
    let [pid, net, mnt] = namespaces.each_ref().map(|path| path.display());
    let records = records()?.1.metadata().ok()?;
    let (device, file) = (records.dev(), records.ino());
    let (boot, user) = (boot.trim(), nix::unistd::geteuid());
    Some(format!(
        "{boot} {pid} {net} {mnt} uid:{user} records:{device}:{file} {address}"
    ))
}

/// Returns the shell in `SHELL` if it is a program, or the system's.
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
