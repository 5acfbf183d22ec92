//! Directories in which no other user can change or replace anything.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use nix::unistd::geteuid;

/// Creates a directory for this user alone, or makes sure that an existing one is this user's and
/// cannot be replaced.
///
/// # Errors
///
/// `PermissionDenied` names the first directory that another user can change. Otherwise the file
/// system's.
pub fn create(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let found = fs::symlink_metadata(directory)?;
    let is_own = found.is_dir() && found.uid() == geteuid().as_raw();
    if !is_own || found.mode() & 0o022 != 0 {
        return Err(not_private(directory));
    }
    check_above(directory)
}

/// Makes sure that only this user and root can replace anything in this directory: it and all above
/// it must be theirs and, except sticky ones (`/tmp`), writable by no other user. Fails as [`create`].
pub fn check(directory: &Path) -> io::Result<()> {
    check_from(directory, 0)
}

/// Makes sure that only this user and root can replace this directory itself. Fails as [`create`].
pub fn check_above(directory: &Path) -> io::Result<()> {
    check_from(directory, 1)
}

fn check_from(directory: &Path, levels: usize) -> io::Result<()> {
    let me = geteuid().as_raw();
    for path in [
        std::path::absolute(directory)?,
        fs::canonicalize(directory)?,
    ] {
        for above in path.ancestors().skip(levels) {
            let found = fs::symlink_metadata(above)?;
            // The mode of a symbolic link has no meaning.
            let others_write = !found.is_symlink() && found.mode() & 0o022 != 0;
            let is_sticky = found.mode() & 0o1000 != 0;
            if ![me, 0].contains(&found.uid()) || others_write && !is_sticky {
                return Err(not_private(above));
            }
        }
    }
    Ok(())
}

fn not_private(directory: &Path) -> io::Error {
    let problem = format!("other users can change {}", directory.display());
    io::Error::new(io::ErrorKind::PermissionDenied, problem)
}

#[cfg(test)]
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
        let mine = shared.join("mine");
        create(&mine).unwrap();
        mode(&shared, 0o777);
        let error = create(&mine).unwrap_err().to_string();
        assert!(error.contains("shared"), "{error}");
        // As /tmp is: nobody can rename what is another's.
        mode(&shared, 0o1777);
        create(&mine).unwrap();
        mode(&mine, 0o770);
        create(&mine).unwrap_err();
        // A link is not the directory, whoever made it.
        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path(), &link).unwrap();
        create(&link).unwrap_err();
        if nix::unistd::geteuid().is_root() {
            mode(&shared, 0o755);
            mode(&mine, 0o700);
            std::os::unix::fs::chown(&shared, Some(65534), None).unwrap();
            create(&mine).unwrap_err();
        }
    }
}
