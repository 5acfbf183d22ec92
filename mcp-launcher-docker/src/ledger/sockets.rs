//! Sockets of hosts: their paths, and the removal of those of a dead host.

use std::path::{Path, PathBuf};

/// Lists directories for sockets with a path that would be too long, or in a directory that other
/// users cannot enter. The first that can be made private is used.
pub(crate) fn short_directories() -> Vec<PathBuf> {
    let own = format!("mcp-{}", nix::unistd::geteuid());
    let parents = ["/tmp", "/var/tmp", "/dev/shm"].map(Path::new);
    parents.map(|parent| parent.join(&own)).into()
}

/// Names a socket so that a later clean-up can attribute it to its owner.
pub(super) fn name(instance: &str, launch: &str) -> String {
    let launch = launch.get(..8).unwrap_or(launch);
    format!("{}.{launch}.sock", in_short(instance))
}

fn in_short(instance: &str) -> &str {
    instance.get(..10).unwrap_or(instance)
}

pub(super) fn remove_of(instance: &str, home: &Path) {
    let prefix = format!("{}.", in_short(instance));
    let is_theirs = |name: &str| name.starts_with(&prefix) && name.ends_with(".sock");
    let directories = short_directories().into_iter().chain([home.to_owned()]);
    let entries = directories.filter_map(|directory| std::fs::read_dir(directory).ok());
    for entry in entries.flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_theirs) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
