//! Sockets of hosts: where they are, and who sweeps those that a killed host left.

use std::path::{Path, PathBuf};

use super::home::Home;

/// Where sockets are kept whose path would be too long, or whose directory would
/// keep others out; the first that can be made private is used.
#[cfg(unix)]
pub(crate) fn short_directories() -> Vec<PathBuf> {
    let own = format!("mcp-{}", nix::unistd::geteuid());
    let parents = ["/tmp", "/var/tmp", "/dev/shm"].map(Path::new);
    parents.map(|parent| parent.join(&own)).into()
}

/// There are no sockets to be kept.
#[cfg(not(unix))]
pub(crate) fn short_directories() -> Vec<PathBuf> {
    Vec::new()
}

/// The name of a socket of this owner: whoever cleans up after it finds it by that.
pub(super) fn name(instance: &str, launch: &str) -> String {
    let launch = launch.get(..8).unwrap_or(launch);
    format!("{}.{launch}.sock", in_short(instance))
}

/// As much of an instance as tells it from others, in a path that has no room.
fn in_short(instance: &str) -> &str {
    instance.get(..10).unwrap_or(instance)
}

/// Removes the sockets of a host that is proven dead.
pub(super) fn remove_of(instance: &str, home: &Path) {
    let of_host = |name: &str| name.split('.').next() == Some(in_short(instance));
    for directory in short_directories()
        .iter()
        .map(PathBuf::as_path)
        .chain([home])
    {
        for path in sockets_in(directory, of_host) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes the sockets at which nobody listens any more: a host that was killed
/// leaves them, and its lease may be gone before anybody looked for orphans.
#[cfg(unix)]
pub(super) async fn sweep(home: std::sync::Arc<Home>, own: String) {
    let directories = short_directories().into_iter();
    for directory in directories.chain([home.path().to_owned()]) {
        sweep_in(&directory, &own).await;
    }
}

#[cfg(unix)]
async fn sweep_in(directory: &Path, own: &str) {
    use std::io::ErrorKind::ConnectionRefused;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    use std::time::{Duration, SystemTime};
    /// From a name to a listener it is a moment.
    const AGE: Duration = Duration::from_secs(10);
    /// One that is full is one that lives.
    const LIMIT: Duration = Duration::from_secs(1);
    let me = nix::unistd::geteuid().as_raw();
    let foreign = |name: &str| name.split('.').next() != Some(in_short(own));
    for path in sockets_in(directory, foreign) {
        let Ok(found) = std::fs::symlink_metadata(&path) else {
            continue;
        };
        let age = found.modified().ok();
        let age = age.and_then(|at| SystemTime::now().duration_since(at).ok());
        if !found.file_type().is_socket()
            || !mcp_lifecycle_host::private::is_mine(directory)
            || age.is_none_or(|age| age < AGE)
            || found.uid() != me && me != 0
        {
            continue;
        }
        let connected = tokio::net::UnixStream::connect(&path);
        if let Ok(Err(error)) = tokio::time::timeout(LIMIT, connected).await
            && error.kind() == ConnectionRefused
        {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(not(unix))]
pub(super) async fn sweep(_: std::sync::Arc<Home>, _: String) {}

fn sockets_in(directory: &Path, is_meant: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.filter_map(|entry| {
        let name = entry.file_name();
        let name = name.to_str()?;
        let parts: Vec<&str> = name.split('.').collect();
        let is_socket = parts.len() == 3 && parts[2] == "sock";
        (is_socket && is_meant(name)).then(|| entry.path())
    });
    paths.collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use nix::sys::stat::{UtimensatFlags, utimensat};
    use nix::sys::time::TimeSpec;
    use std::os::unix::net::UnixListener;

    #[test]
    fn sockets_at_which_nobody_listens_are_swept_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let age = |name: &str| {
            let long_ago = TimeSpec::new(1, 0);
            let flags = UtimensatFlags::NoFollowSymlink;
            utimensat(nix::fcntl::AT_FDCWD, &at(name), &long_ago, &long_ago, flags).unwrap();
        };
        for dead in [
            "0123456789.01234567.sock",
            "aaaaaaaaaa.01234567.sock",
            "fresh.1.sock",
        ] {
            drop(UnixListener::bind(at(dead)).unwrap());
        }
        let _living = UnixListener::bind(at("bbbbbbbbbb.01234567.sock")).unwrap();
        std::fs::write(at("cccccccccc.01234567.sock"), "no socket").unwrap();
        for old in ["0123456789", "aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"] {
            age(&format!("{old}.01234567.sock"));
        }
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(sweep_in(dir.path(), "aaaaaaaaaa-and-more"));
        let mut left: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let expected = ["aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"];
        let expected = expected.map(|name| format!("{name}.01234567.sock"));
        assert_eq!(left[..3], expected);
        assert_eq!(left[3], "fresh.1.sock");
    }
}
