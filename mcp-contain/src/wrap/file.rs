//! A configuration file: read whole, and replaced atomically.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::owner;

pub(crate) const BACKUP: &str = ".before-mcp-contain";

const LONGEST: u64 = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("is no file")]
    NoFile,
    #[error("is not there")]
    Missing,
    #[error("has no servers where this program looks for them: in {0}")]
    NoServers(String),
    #[error("is longer than 64 MiB")]
    TooLong,
    #[error("is not written in UTF-8; save it as UTF-8 first")]
    Encoding,
    #[error("cannot be understood, and is left as it is: {0}; mend it, then call this again")]
    Syntax(String),
    #[error("is read-only; make it writable first (chmod u+w)")]
    ReadOnly,
    #[error(
        "has {0} names (hard links), of which only one would be changed; wrap its servers by hand"
    )]
    Linked(u64),
    #[error(
        "was changed by another program at the same time, and is left as it is; end the host and try again"
    )]
    Changed,
    #[error("cannot be read: {0}{advice}", advice = advice(.0, "call this as a user who may read it"))]
    Read(io::Error),
    #[error(
        "has a backup, {0}, that cannot be used ({1}), and is left as it is; move the backup away"
    )]
    Backup(PathBuf, String),
    #[error("cannot be replaced, and is as it was: {0}{advice}", advice = advice(.0, "call this as a user who may write in its directory"))]
    Write(io::Error),
}

fn advice(error: &io::Error, what: &str) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!("; {what}"),
        _ => String::new(),
    }
}

#[derive(Debug)]
pub(crate) struct Document {
    path: PathBuf,
    text: String,
    metadata: Metadata,
}

impl Document {
    pub(crate) fn read(named: &Path) -> Result<Option<Self>, FileError> {
        let path = match fs::canonicalize(named) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FileError::Read(error)),
        };
        // Opening a named pipe would block.
        if !fs::metadata(&path).map_err(FileError::Read)?.is_file() {
            return Err(FileError::NoFile);
        }
        let mut file = File::open(&path).map_err(FileError::Read)?;
        let metadata = file.metadata().map_err(FileError::Read)?;
        let mut bytes = Vec::new();
        let length = (&mut file).take(LONGEST + 1).read_to_end(&mut bytes);
        if length.map_err(FileError::Read)? as u64 > LONGEST {
            return Err(FileError::TooLong);
        }
        let text = String::from_utf8(bytes).map_err(|_| FileError::Encoding)?;
        Ok(Some(Self {
            path,
            text,
            metadata,
        }))
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn backup_path(&self) -> PathBuf {
        let mut path = OsString::from(&self.path);
        path.push(BACKUP);
        path.into()
    }

    pub(crate) fn backup(&self) -> Result<Option<Self>, FileError> {
        Self::read(&self.backup_path())
    }

    pub(crate) fn back_up(&self) -> Result<(), FileError> {
        self.check_replaceable()?;
        self.put(&self.backup_path(), &self.text, || Ok(()))
    }

    /// Replaces the text atomically, unless the file has changed since it was read. Mode, owner and
    /// a symbolic link stay.
    pub(crate) fn replace(&self, text: &str) -> Result<(), FileError> {
        self.check_replaceable()?;
        self.put(&self.path, text, || match Self::read(&self.path)? {
            Some(now) if now.text == self.text => Ok(()),
            _ => Err(FileError::Changed),
        })
    }

    fn check_replaceable(&self) -> Result<(), FileError> {
        if owner::is_read_only(&self.metadata) {
            return Err(FileError::ReadOnly);
        }
        match owner::names(&self.metadata) {
            0 | 1 => Ok(()),
            names => Err(FileError::Linked(names)),
        }
    }

    fn put(
        &self,
        path: &Path,
        text: &str,
        check: impl FnOnce() -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let directory = path.parent().unwrap_or(path);
        let new = self.write(directory, text).map_err(FileError::Write)?;
        check()?;
        let put = new.persist(path);
        put.map_err(|error| FileError::Write(error.error))?;
        // The new name is durable once the directory is written.
        if let Ok(directory) = File::open(directory) {
            let _ = directory.sync_all();
        }
        Ok(())
    }

    /// Writes a file with the owner and the mode of this one, private until then.
    fn write(&self, directory: &Path, text: &str) -> io::Result<NamedTempFile> {
        let mut new = tempfile::Builder::new()
            .prefix(".mcp-contain-")
            .tempfile_in(directory)?;
        new.as_file_mut().write_all(text.as_bytes())?;
        owner::pass_on(new.as_file(), &self.metadata)?;
        new.as_file().sync_all()?;
        Ok(new)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let name =
            |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_that_changes_after_it_was_read_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        fs::write(&path, "old").unwrap();
        let document = Document::read(&path).unwrap().unwrap();
        fs::write(&path, "somebody else's").unwrap();
        assert!(matches!(document.replace("new"), Err(FileError::Changed)));
        assert_eq!(fs::read_to_string(&path).unwrap(), "somebody else's");
        fs::remove_file(&path).unwrap();
        assert!(matches!(document.replace("new"), Err(FileError::Changed)));
        assert_eq!(
            names(directory.path()),
            [""; 0],
            "and nothing is left beside it"
        );
    }

    #[test]
    fn a_link_stays_one_and_the_mode_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (real, link) = (
            directory.path().join("real.json"),
            directory.path().join("link.json"),
        );
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real.json", &link).unwrap();
        let document = Document::read(&link).unwrap().unwrap();
        document.back_up().unwrap();
        document.replace("new").unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("real.json"));
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        for path in [&real, &document.backup_path()] {
            assert_eq!(
                fs::metadata(path).unwrap().mode() & 0o7777,
                0o640,
                "{}",
                path.display()
            );
        }
        assert_eq!(document.backup().unwrap().unwrap().text(), "old");
        assert_eq!(
            names(directory.path()),
            ["link.json", "real.json", "real.json.before-mcp-contain"]
        );
    }

    #[test]
    fn what_must_not_be_replaced_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        let (other, pipe) = (
            directory.path().join("b.json"),
            directory.path().join("pipe"),
        );
        fs::write(&path, "old").unwrap();
        fs::hard_link(&path, &other).unwrap();
        let replaced = Document::read(&path).unwrap().unwrap().replace("new");
        assert!(matches!(replaced, Err(FileError::Linked(2))));
        fs::remove_file(&other).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        let replaced = Document::read(&path).unwrap().unwrap().replace("new");
        assert!(matches!(replaced, Err(FileError::ReadOnly)));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        fs::write(&other, [0xff, 0xfe, b'{', 0]).unwrap();
        assert!(matches!(Document::read(&other), Err(FileError::Encoding)));
        assert!(matches!(
            Document::read(directory.path()),
            Err(FileError::NoFile)
        ));
        assert!(
            Document::read(&directory.path().join("none"))
                .unwrap()
                .is_none()
        );
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        assert!(matches!(Document::read(&pipe), Err(FileError::NoFile)));
    }
}
