//! The lease of a host: a locked file that says that the host lives.
//!
//! The kernel releases the lock on any death of the host, so that nothing has
//! to be renewed and no pid is ever compared. The file holds the endpoints the
//! host has used, which is where its containers are to be looked for.
//!
//! A lease can be judged only by who sees the same directory: another user, a
//! host in a container or another machine may not. The directory therefore has
//! a random name of its own, its *domain*, that every container carries.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tracing::warn;

use crate::private::{create_private, open_private, private_options, user};
use crate::{control, machine, random};

const SUFFIX: &str = "lease";

/// How often a lease is looked after: a cleaner of temporary files goes by days.
const REFRESH: Duration = Duration::from_secs(3600);

/// The longest lease that is read.
const LONGEST: u64 = 1024 * 1024;

/// What the containers of an owner are told apart by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) domain: String,
    pub(crate) machine: String,
    pub(crate) boot: String,
}

impl Owner {
    /// An owner of this machine without leases, and so of no domain.
    pub(crate) fn without_domain() -> Self {
        Self {
            domain: String::new(),
            machine: machine::id(),
            boot: machine::boot(),
        }
    }

    /// An owner of this machine, with its leases in `directory`.
    pub(crate) fn in_directory(directory: &Path) -> io::Result<Self> {
        Ok(Self {
            domain: domain(directory)?,
            ..Self::without_domain()
        })
    }
}

/// A lease that this process holds.
///
/// # Drop
///
/// Gives it back and removes the file. Every container holds the lease it was
/// created under until it is proven gone.
#[derive(Debug)]
pub(crate) struct Lease {
    instance: String,
    owner: Owner,
    path: PathBuf,
    file: Mutex<File>,
}

/// A lease of somebody else's, as found in the directory.
#[derive(Debug)]
pub(crate) struct Other {
    pub(crate) instance: String,
    /// Where its containers are; known of a dead owner only.
    pub(crate) endpoints: Vec<String>,
    pub(crate) alive: bool,
    path: PathBuf,
    /// Locked by us, so that nobody else cleans up at the same time.
    _lock: Option<File>,
}

impl Lease {
    /// Takes a new lease in `directory`, which is created when missing.
    pub(crate) fn take(directory: &Path) -> io::Result<Self> {
        create_private(directory)?;
        let owner = Owner::in_directory(directory)?;
        let instance = random::id()?;
        let nascent = directory.join(format!("{instance}.new"));
        let path = directory.join(format!("{instance}.{SUFFIX}"));
        let file = held(&nascent, &path, "")?;
        Ok(Self {
            instance,
            owner,
            path,
            file: Mutex::new(file),
        })
    }

    /// Looks after the lease until it is dropped: a cleaner of temporary files
    /// judges by age, and what it has removed is made again.
    pub(crate) fn look_after(self: &Arc<Self>) -> io::Result<()> {
        let lease: Weak<Self> = Arc::downgrade(self);
        control::spawn(async move {
            loop {
                tokio::time::sleep(REFRESH).await;
                let Some(lease) = lease.upgrade() else {
                    return;
                };
                lease.refresh();
            }
        })?;
        Ok(())
    }

    /// Makes sure that the lease is where others look for it, and is not old.
    pub(crate) fn refresh(&self) {
        if let Err(error) = self.renew() {
            warn!(lease = %self.path.display(), %error, "this host's lease cannot be kept");
        }
    }

    fn renew(&self) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_there(&file, &self.path)? {
            let mut known = String::new();
            file.rewind()?;
            file.read_to_string(&mut known)?;
            create_private(self.path.parent().unwrap_or(Path::new("/")))?;
            *file = held(&self.path.with_extension("new"), &self.path, &known)?;
        }
        file.set_modified(SystemTime::now())?;
        // Its name is in the labels of all containers of this host.
        let domain = self.path.with_file_name("domain");
        match private_options().write(true).create_new(true).open(&domain) {
            Ok(mut new) => new.write_all(self.owner.domain.as_bytes()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                File::open(&domain)?.set_modified(SystemTime::now())
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Where a socket of this owner goes, so that whoever cleans up after it
    /// finds it: in this directory, or the [short one](short_directory).
    pub(crate) fn socket(&self, directory: &Path, launch: &str) -> PathBuf {
        let launch = launch.get(..8).unwrap_or(launch);
        directory.join(format!("{}.{launch}.sock", in_short(&self.instance)))
    }

    /// Notes that containers are about to be created there. Before the first
    /// create, so that a host that dies within it is cleaned up after.
    pub(crate) fn note(&self, endpoint: &str) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = String::new();
        file.rewind()?;
        file.read_to_string(&mut known)?;
        if known.lines().any(|line| line == endpoint) {
            return Ok(());
        }
        writeln!(file, "{endpoint}")
    }
}

/// A locked file of this content, that then has its name: nobody ever sees a
/// lease that is not held.
fn held(nascent: &Path, path: &Path, content: &str) -> io::Result<File> {
    let mut options = private_options();
    let mut file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(nascent)?;
    file.lock()?;
    file.write_all(content.as_bytes())?;
    fs::rename(nascent, path)?;
    Ok(file)
}

/// Whether the file at this path is this one.
#[cfg(unix)]
fn is_there(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let own = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
fn is_there(_: &File, path: &Path) -> io::Result<bool> {
    path.try_exists()
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Other {
    /// Forgets it, once nothing of its owner is left, with its sockets.
    pub(crate) fn forget(self) {
        let directories = [
            self.path.parent().map(Path::to_owned),
            Some(short_directory()),
        ];
        let directories = directories.into_iter().flatten().map(fs::read_dir);
        for file in directories.flatten().flatten().flatten() {
            let name = file.file_name();
            let name = name.to_string_lossy();
            let mut parts = name.split('.');
            let is_ours = parts.next() == Some(in_short(&self.instance));
            if is_ours && parts.next_back() == Some("sock") {
                let _ = fs::remove_file(file.path());
            }
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// The leases in `directory`, dead and alive. The dead ones stay locked by us
/// until they are dropped.
pub(crate) fn others(directory: &Path) -> io::Result<Vec<Other>> {
    let mut leases = Vec::new();
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(leases),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let Some(instance) = instance_of(&path) else {
            continue;
        };
        let mut file = match open_private(&path) {
            Ok(file) => file,
            // Given back in this moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                warn!(lease = %path.display(), %error, "not a lease of this user");
                continue;
            }
            Err(error) => return Err(error),
        };
        let alive = match file.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(error)) => return Err(error),
        };
        let mut text = String::new();
        if !alive {
            Read::by_ref(&mut file)
                .take(LONGEST)
                .read_to_string(&mut text)?;
        }
        leases.push(Other {
            instance,
            endpoints: text.lines().map(str::to_owned).collect(),
            alive,
            path,
            _lock: (!alive).then_some(file),
        });
    }
    Ok(leases)
}

/// The instances whose leases are in `directory` at this moment, held or not.
///
/// Nothing is locked, so that it can be asked while [`others`] holds its own.
pub(crate) fn instances(directory: &Path) -> io::Result<BTreeSet<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error),
    };
    let mut instances = BTreeSet::new();
    for entry in entries {
        instances.extend(instance_of(&entry?.path()));
    }
    Ok(instances)
}

/// The instance whose lease this file is, if it is one.
fn instance_of(path: &Path) -> Option<String> {
    let is_lease = path.extension().is_some_and(|suffix| suffix == SUFFIX);
    let instance = path.file_stem().and_then(|stem| stem.to_str());
    instance.filter(|_| is_lease).map(str::to_owned)
}

/// Where leases are kept unless the application says otherwise: of this user
/// and this boot.
pub(crate) fn default_directory() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    match runtime {
        Some(dir) => PathBuf::from(dir).join("mcp-lifecycle").join("docker"),
        None => std::env::temp_dir()
            .join(format!("mcp-lifecycle-{}", user()))
            .join("docker"),
    }
}

/// Where sockets are kept whose path would be too long, or whose directory would
/// keep others out.
pub(crate) fn short_directory() -> PathBuf {
    Path::new("/tmp").join(format!("mcp-{}", user()))
}

/// As much of an instance as tells it from others, in a path that has no room.
fn in_short(instance: &str) -> &str {
    instance.get(..10).unwrap_or(instance)
}

/// The random name of a directory, made up at its first use.
fn domain(directory: &Path) -> io::Result<String> {
    let path = directory.join("domain");
    loop {
        match fs::read_to_string(&path) {
            Ok(text) if text.len() == 32 => return Ok(text),
            Ok(_) => {
                let problem = format!("{} is damaged; remove it", path.display());
                return Err(io::Error::other(problem));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let id = random::id()?;
        let nascent = directory.join(format!("domain.{id}"));
        fs::write(&nascent, &id)?;
        // Fails when somebody else was first, who then is right.
        let linked = fs::hard_link(&nascent, &path);
        fs::remove_file(&nascent)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lease_is_alive_and_a_dropped_one_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let lease = Lease::take(dir.path()).unwrap();
        lease.note("unix:///a").unwrap();
        lease.note("unix:///a").unwrap();
        let seen = others(dir.path()).unwrap();
        assert!(seen.iter().all(|other| other.alive));
        assert_eq!(seen[0].instance, lease.instance());
        drop(lease);
        assert!(others(dir.path()).unwrap().is_empty());
    }

    #[test]
    fn a_lease_whose_holder_died_tells_where_to_look() {
        let dir = tempfile::tempdir().unwrap();
        let lease = Lease::take(dir.path()).unwrap();
        lease.note("unix:///a").unwrap();
        lease.note("tcp://b:1").unwrap();
        // As a death does: the lock goes, the file stays.
        lease.file.lock().unwrap().unlock().unwrap();
        let seen = others(dir.path()).unwrap();
        assert!(!seen[0].alive);
        assert_eq!(seen[0].endpoints, ["unix:///a", "tcp://b:1"]);
        // Who cleans up holds the lock, so that it is one at a time.
        assert!(others(dir.path()).unwrap()[0].alive);
        for other in seen {
            other.forget();
        }
        assert!(others(dir.path()).unwrap().is_empty());
    }

    /// As a cleaner of temporary files does.
    #[test]
    fn a_lease_that_was_removed_is_made_again_with_its_domain() {
        let dir = tempfile::tempdir().unwrap();
        let lease = Lease::take(dir.path()).unwrap();
        lease.note("unix:///a").unwrap();
        for file in fs::read_dir(dir.path()).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        assert!(others(dir.path()).unwrap().is_empty());
        lease.refresh();
        let seen = others(dir.path()).unwrap();
        assert!(seen[0].alive);
        assert_eq!(seen[0].instance, lease.instance());
        let owner = Owner::in_directory(dir.path()).unwrap();
        assert_eq!(owner.domain, lease.owner().domain);
        lease.file.lock().unwrap().unlock().unwrap();
        assert_eq!(others(dir.path()).unwrap()[0].endpoints, ["unix:///a"]);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_lease_of_ours_blocks_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let fifo = std::process::Command::new("mkfifo")
            .arg(at("a.lease"))
            .status();
        assert!(fifo.unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", at("b.lease")).unwrap();
        fs::create_dir(at("c.lease")).unwrap();
        assert!(others(dir.path()).unwrap().is_empty());
    }

    #[test]
    fn a_directory_keeps_its_domain() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let of = |dir: &tempfile::TempDir| Owner::in_directory(dir.path()).unwrap().domain;
        assert_eq!(of(&one), of(&one));
        assert_ne!(of(&one), of(&two));
    }
}
