//! One cgroup of one server.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, fstatfs};

use self::tree::{Removal, absent_is, is_populated, kill, members, open_to_write, remove};
use crate::sys::watch::{self, Interest};
use crate::sys::{self, reserve};

mod tree;

/// A cgroup that this process has made, and removes.
///
/// No descriptor is kept: what is needed is opened when it is needed.
///
/// # Drop
///
/// As [`end`](Self::end), without anybody to tell.
#[derive(Debug)]
pub(crate) struct Leaf {
    path: PathBuf,
    /// It is removed, or somebody else's to remove.
    settled: Arc<AtomicBool>,
}

/// How deep a server may nest cgroups in its own, which is far more than a container
/// with a service manager in it takes.
const DEPTH_MAX: &[u8] = b"64";

/// The files of a leaf that the guardian and the server need.
#[derive(Debug)]
pub(crate) struct Doors {
    /// The directory: a process that is cloned into it is born inside.
    pub(crate) directory: File,
    /// `cgroup.procs`: a process that writes "0" here is inside.
    pub(crate) procs: File,
    /// `cgroup.kill`: a process that writes "1" here ends everything inside.
    pub(crate) kill: File,
}

impl Leaf {
    /// Makes the cgroup `name` below `parent`. One that exists is an error: it
    /// may have been killed once, or be somebody else's.
    pub(crate) fn create(parent: &Path, name: &str) -> io::Result<Self> {
        let path = parent.join(name);
        DirBuilder::new().mode(0o755).create(&path)?;
        // Best effort: paths that are too long could not be walked.
        let depth = open_to_write(&path.join("cgroup.max.depth"));
        let _ = depth.and_then(|mut file| file.write_all(DEPTH_MAX));
        Ok(Self::at(path))
    }

    /// Limits the memory of all inside together, and has the kernel end all of them where they need more.
    ///
    /// # Errors
    ///
    /// The limit is not set.
    pub(crate) fn limit(&self, memory: u64) -> io::Result<()> {
        let write = |name: &str, text: &str| {
            let said = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
            let file = open_to_write(&self.path.join(name));
            file.and_then(|mut file| file.write_all(text.as_bytes()))
                .map_err(said)
        };
        // First: whoever is ended is ended with all others.
        write("memory.oom.group", "1")?;
        match write("memory.swap.max", "0") {
            // There is no swap, or nobody counts it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
        write("memory.max", &memory.to_string())
    }

    /// Takes over a cgroup that an earlier host has made. An error if it is
    /// not one: a directory of any other kind is nothing we may empty.
    pub(crate) fn adopt(path: PathBuf) -> io::Result<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let directory = open(&path, flags, Mode::empty())?;
        if fstatfs(&directory)?.filesystem_type() != CGROUP2_SUPER_MAGIC {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self::at(path))
    }

    fn at(path: PathBuf) -> Self {
        Self {
            path,
            settled: Arc::default(),
        }
    }

    /// Lets it be, with whoever is inside.
    pub(crate) fn abandon(self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Opened by the host, because it is the opener's rights that count.
    pub(crate) fn open(&self) -> io::Result<Doors> {
        let directory = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(Doors {
            directory: open(&self.path, directory, Mode::empty())?.into(),
            procs: open_to_write(&self.path.join("cgroup.procs"))?,
            // Since Linux 5.14; before, a leaf is no use to us.
            kill: open_to_write(&self.path.join("cgroup.kill"))?,
        })
    }

    /// The directory that the cgroup is in, and its name, for whoever removes it.
    pub(crate) fn place(&self) -> io::Result<(File, CString)> {
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        let name = self.path.file_name().unwrap_or_default();
        Ok((File::open(parent)?, CString::new(name.as_bytes())?))
    }

    /// Returns whether a path of the hierarchy leads to this cgroup or into it.
    pub(crate) fn is_named_in(&self, path: &str) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| path.contains(&format!("/{name}")))
    }

    /// The members by pid, also of the cgroups that the server has made
    /// inside of it; 0 for one that is in a PID namespace that is not visible
    /// here. A cgroup that is gone has no members.
    pub(crate) fn members(&self) -> io::Result<Vec<u32>> {
        let mut found = Vec::new();
        members(&self.path, &mut found)?;
        Ok(found)
    }

    /// Removes the cgroup if nobody is inside, and says whether it has.
    pub(crate) fn remove_empty(&self) -> bool {
        let removed = fs::remove_dir(&self.path).is_ok();
        self.settled.fetch_or(removed, Ordering::Relaxed);
        removed
    }

    /// Removes the cgroup once nobody is inside, and says whether it has. Blocks,
    /// at most `limit` long.
    pub(crate) fn remove_within(&self, limit: Duration) -> io::Result<bool> {
        let end = Instant::now() + limit;
        let removed = || {
            let events = File::open(self.path.join("cgroup.events"))?;
            loop {
                if !is_populated(&events)? && matches!(remove(&self.path)?, Removal::Done) {
                    return Ok(true);
                }
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Ok(false);
                }
                watch::changes_within(&events, left)?;
            }
        };
        let removed = absent_is(removed(), true);
        let is_gone = matches!(removed, Ok(true));
        self.settled.fetch_or(is_gone, Ordering::Relaxed);
        removed
    }

    /// Ends everything inside, without waiting for it. A cgroup that is gone
    /// needs no ending.
    pub(crate) fn kill(&self) -> io::Result<()> {
        if self.settled.load(Ordering::Relaxed) {
            return Ok(());
        }
        absent_is(reserve::with(|| kill(&self.path)), ())
    }

    /// Ends what is inside, if anything is, and removes the cgroup. Calls
    /// `done` when nothing is left: at once, or on the watcher's thread. After
    /// a failure it may be called again.
    ///
    /// No timer: the kernel says when the last process has gone.
    pub(crate) fn end(&self, done: impl FnOnce(io::Result<()>) + Send + 'static) {
        let settled = Arc::clone(&self.settled);
        end(self.path.clone(), move |result| {
            settled.fetch_or(result.is_ok(), Ordering::Relaxed);
            done(result);
        });
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        if self.settled.load(Ordering::Relaxed) {
            return;
        }
        end(std::mem::take(&mut self.path), |result| {
            if let Err(error) = result {
                sys::shielded(|| tracing::warn!(%error, "a cgroup could not be removed"));
            }
        });
    }
}

fn end(path: PathBuf, done: impl FnOnce(io::Result<()>) + Send + 'static) {
    match reserve::with(|| remove(&path)) {
        Ok(Removal::Done) => done(Ok(())),
        Ok(Removal::Busy) => match reserve::with(|| Emptying::begin(path.clone())) {
            Ok(emptying) => emptying.watch(done),
            Err(error) => done(Err(error)),
        },
        Err(error) => done(Err(error)),
    }
}

/// A cgroup that was told to die and is waited for.
struct Emptying {
    path: PathBuf,
    events: Arc<File>,
}

impl Emptying {
    fn begin(path: PathBuf) -> io::Result<Self> {
        // Opened first: from its first reading on, the descriptor knows of
        // every change.
        let events = Arc::new(File::open(path.join("cgroup.events"))?);
        kill(&path)?;
        Ok(Self { path, events })
    }

    /// Calls `done` once, from here or from the watcher's thread.
    fn watch(self, done: impl FnOnce(io::Result<()>) + Send + 'static) {
        let done = Arc::new(Mutex::new(Some(done)));
        let say = move |result| {
            let done = done.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(done) = done {
                done(result);
            }
        };
        let say_no = say.clone();
        let events = Arc::clone(&self.events);
        let look = move || match self.look() {
            Ok(Removal::Busy) => Interest::More,
            Ok(Removal::Done) => {
                say(Ok(()));
                Interest::Done
            }
            Err(error) => {
                say(Err(error));
                Interest::Done
            }
        };
        // The first look reads, which is what later changes are told against;
        // the kernel says "changed" to whoever has not read yet.
        if let Err(error) = watch::changed(events, look) {
            say_no(Err(error));
        }
    }

    fn look(&self) -> io::Result<Removal> {
        if is_populated(&self.events)? {
            return Ok(Removal::Busy);
        }
        remove(&self.path)
    }
}
