//! Watches files by inotify, a directory at a time, so that some can be left out.

use std::path::{Path, PathBuf};
use std::{fs, io};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags as On, InitFlags, Inotify, WatchDescriptor};

use crate::failure::Failure;

/// Names that are left out, as are hidden ones: builds and packages write them.
const LEFT_OUT: [&str; 3] = ["node_modules", "target", "__pycache__"];

#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) inotify: Inotify,
    directories: Vec<(WatchDescriptor, PathBuf)>,
    paths: Vec<PathBuf>,
}

impl Watch {
    /// Watches these files, and all below these directories.
    pub(crate) fn new<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> io::Result<Self> {
        let resolved = paths.into_iter().map(|path| {
            let why = |why| io::Error::other(format!("cannot watch {}: {why}", path.display()));
            fs::canonicalize(path).map_err(why)
        });
        Self::open(resolved.collect::<io::Result<_>>()?)
    }

    fn open(paths: Vec<PathBuf>) -> io::Result<Self> {
        let mut watch = Self {
            inotify: Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?,
            directories: Vec::new(),
            paths,
        };
        for path in watch.paths.clone() {
            // From above, it is also seen that it is replaced.
            watch.add(path.parent().unwrap_or(&path))?;
            watch.add(&path)?;
        }
        Ok(watch)
    }

    /// Adds a file or directory, and directories below, unless it has gone or cannot be read.
    fn add(&mut self, path: &Path) -> io::Result<()> {
        let on = On::IN_MODIFY | On::IN_ATTRIB | On::IN_CREATE | On::IN_DELETE | On::IN_MOVE;
        let number = match self.inotify.add_watch(path, on) {
            Err(Errno::ENOENT | Errno::EACCES) => return Ok(()),
            Err(Errno::ENOSPC) => Err(io::Error::other("raise fs.inotify.max_user_watches"))?,
            number => number?,
        };
        self.directories.push((number, path.to_owned()));
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_directory && self.is_meant(&entry.path()) {
                self.add(&entry.path())?;
            }
        }
        Ok(())
    }

    fn is_meant(&self, path: &Path) -> bool {
        let is_left_out = |name: &str| name.starts_with('.') || LEFT_OUT.contains(&name);
        let is_seen = |path: &Path| !path.iter().any(|name| is_left_out(&name.to_string_lossy()));
        let is_below = |above: &PathBuf| path.strip_prefix(above).is_ok_and(is_seen);
        self.paths.iter().any(is_below)
    }

    /// Returns whether something has changed.
    pub(crate) fn has_changed(&mut self) -> bool {
        let mut changed = On::empty();
        for event in self.inotify.read_events().unwrap_or_default() {
            let at = self.directories.iter().find(|it| it.0 == event.wd);
            let named = at.zip(event.name);
            if named.is_none_or(|((_, at), name)| self.is_meant(&at.join(name))) {
                changed |= event.mask;
            }
        }
        // A directory may have another name now.
        if changed.intersects(On::IN_ISDIR | On::IN_Q_OVERFLOW) {
            let anew = Self::open(self.paths.clone()).map(|anew| *self = anew);
            let said = |error| Failure::wrapper(format_args!("cannot watch: {error}")).say();
            anew.unwrap_or_else(said);
        }
        !changed.is_empty()
    }
}
