//! Directories that nobody else can change, or put something in place of. Containers
//! have files of such a directory mounted, and sockets are in one, by name.

#[cfg(unix)]
use std::fs;
#[cfg(unix)]
use std::io;
#[cfg(unix)]
use std::path::Path;

/// Creates a directory, unless it is there, and makes sure that it is private.
///
/// It and every directory above it belong to this user or root, and nobody else
/// can write into them, but for those that keep one user's files from another's
/// (`/tmp`). Else somebody could put another directory in its place.
#[cfg(unix)]
pub(crate) fn create_private(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let me = nix::unistd::geteuid().as_raw();
    let found = fs::symlink_metadata(directory)?;
    if !found.is_dir() || found.uid() != me || found.mode() & 0o022 != 0 {
        return Err(not_private(directory));
    }
    check_above(directory)
}

/// Makes sure that nobody can put another directory in the place of this one, or of
/// one above it.
#[cfg(unix)]
pub(crate) fn check_above(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let me = nix::unistd::geteuid().as_raw();
    for path in [
        std::path::absolute(directory)?,
        fs::canonicalize(directory)?,
    ] {
        for above in path.ancestors().skip(1) {
            let found = fs::symlink_metadata(above)?;
            // The mode of a link says nothing.
            let others_write = !found.is_symlink() && found.mode() & 0o022 != 0;
            let is_sticky = found.mode() & 0o1000 != 0;
            if ![me, 0].contains(&found.uid()) || others_write && !is_sticky {
                return Err(not_private(above));
            }
        }
    }
    Ok(())
}

#[cfg(unix)]
fn not_private(directory: &Path) -> io::Error {
    // Somebody else made it, in a temporary directory that all share.
    let problem = format!(
        "others than this user can change {}; choose another lease directory",
        directory.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, problem)
}

/// Whether it is a directory of this user's.
#[cfg(unix)]
pub(crate) fn is_mine(directory: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let found = fs::symlink_metadata(directory);
    found.is_ok_and(|found| found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw())
}

/// The effective user, to tell directories apart by.
#[cfg(unix)]
pub(crate) fn user() -> String {
    nix::unistd::geteuid().to_string()
}

#[cfg(not(unix))]
pub(crate) fn user() -> String {
    std::env::var("USERNAME").unwrap_or_else(|_| "unknown".to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_that_somebody_could_replace_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let shared = root.path().join("shared");
        let lease = shared.join("mine");
        create_private(&lease).unwrap();
        mode(&shared, 0o777);
        let error = create_private(&lease).unwrap_err().to_string();
        assert!(error.contains("shared"), "{error}");
        // As /tmp is: nobody can rename what is another's.
        mode(&shared, 0o1777);
        create_private(&lease).unwrap();
        mode(&lease, 0o770);
        create_private(&lease).unwrap_err();
        // A link is not the directory, whoever made it.
        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path(), &link).unwrap();
        create_private(&link).unwrap_err();
        if nix::unistd::geteuid().is_root() {
            mode(&shared, 0o755);
            mode(&lease, 0o700);
            std::os::unix::fs::chown(&shared, Some(65534), None).unwrap();
            create_private(&lease).unwrap_err();
        }
    }
}
