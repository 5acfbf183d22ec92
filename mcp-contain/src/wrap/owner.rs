//! Whose a file is, and who may do what to it: kept when the file is replaced.

pub(super) use system::{is_read_only, names, pass_on, private};

#[cfg(unix)]
mod system {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};

    pub(in crate::wrap) fn is_read_only(metadata: &Metadata) -> bool {
        metadata.permissions().mode() & 0o200 == 0
    }

    /// The number of names (hard links) that it has.
    pub(in crate::wrap) fn names(metadata: &Metadata) -> u64 {
        metadata.nlink()
    }

    /// A new file is nobody else's, until it has the permissions of the old one.
    pub(in crate::wrap) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options.mode(0o600)
    }

    /// The new file is whose the old one was, and so is who may do what to it.
    pub(in crate::wrap) fn pass_on(new: &File, old: &Metadata) -> io::Result<()> {
        let made = new.metadata()?;
        let (user, group) = (old.uid(), old.gid());
        if (made.uid(), made.gid()) != (user, group) {
            fchown(new, Some(user), Some(group))?;
        }
        new.set_permissions(old.permissions())
    }
}

/// Elsewhere a new file has what its directory gives to all: an entry that the old one had for itself alone is lost.
#[cfg(not(unix))]
mod system {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;

    pub(in crate::wrap) fn is_read_only(metadata: &Metadata) -> bool {
        metadata.permissions().readonly()
    }

    /// The standard library does not say: another name would keep the old text.
    pub(in crate::wrap) fn names(_: &Metadata) -> u64 {
        1
    }

    pub(in crate::wrap) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options
    }

    pub(in crate::wrap) fn pass_on(_: &File, _: &Metadata) -> io::Result<()> {
        Ok(())
    }
}
