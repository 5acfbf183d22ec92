//! Owner and permissions of a file, kept when it is replaced.

pub(super) use system::{is_read_only, names, pass_on};

#[cfg(unix)]
mod system {
    use std::fs::{File, Metadata};
    use std::io;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

    pub(in crate::wrap) fn is_read_only(metadata: &Metadata) -> bool {
        metadata.permissions().mode() & 0o200 == 0
    }

    pub(in crate::wrap) fn names(metadata: &Metadata) -> u64 {
        metadata.nlink()
    }

    pub(in crate::wrap) fn pass_on(new: &File, old: &Metadata) -> io::Result<()> {
        let made = new.metadata()?;
        let (user, group) = (old.uid(), old.gid());
        if (made.uid(), made.gid()) != (user, group) {
            fchown(new, Some(user), Some(group))?;
        }
        new.set_permissions(old.permissions())
    }
}

/// A new file inherits from its directory: individual permissions of the old one are lost.
#[cfg(not(unix))]
mod system {
    use std::fs::{File, Metadata};
    use std::io;

    pub(in crate::wrap) fn is_read_only(metadata: &Metadata) -> bool {
        metadata.permissions().readonly()
    }

    /// Returns 1: the standard library cannot count hard links.
    pub(in crate::wrap) fn names(_: &Metadata) -> u64 {
        1
    }

    pub(in crate::wrap) fn pass_on(_: &File, _: &Metadata) -> io::Result<()> {
        Ok(())
    }
}
