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
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::{machine, random};

const SUFFIX: &str = "lease";

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
        // Locked before it has the name that others look for: nobody ever
        // sees a lease that is not held.
        let nascent = directory.join(format!("{instance}.new"));
        let path = directory.join(format!("{instance}.{SUFFIX}"));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&nascent)?;
        file.lock()?;
        fs::rename(&nascent, &path)?;
        Ok(Self {
            instance,
            owner,
            path,
            file: Mutex::new(file),
        })
    }

    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Where a socket of this owner goes, so that whoever cleans up after it
    /// finds it.
    pub(crate) fn socket(&self, directory: &Path, launch: &str) -> PathBuf {
        directory.join(format!("{}.{launch}.sock", self.instance))
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

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Other {
    /// Forgets it, once nothing of its owner is left, with its sockets.
    pub(crate) fn forget(self) {
        let directory = self.path.parent().map(fs::read_dir);
        let files = directory.into_iter().flatten().flatten().flatten();
        for file in files {
            let name = file.file_name();
            let name = name.to_string_lossy();
            let is_socket = name.ends_with(".sock");
            if is_socket && name.starts_with(&self.instance) {
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
        let mut file = match File::open(&path) {
            Ok(file) => file,
            // Given back in this moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let alive = match file.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(error)) => return Err(error),
        };
        let mut text = String::new();
        if !alive {
            file.read_to_string(&mut text)?;
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

/// The random name of a directory, made up at its first use.
fn domain(directory: &Path) -> io::Result<String> {
    let path = directory.join("domain");
    loop {
        match fs::read_to_string(&path) {
            Ok(text) if text.len() == 32 => return Ok(text),
            Ok(_) => return Err(io::Error::other(format!("{} is damaged", path.display()))),
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

#[cfg(unix)]
fn create_private(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let found = fs::metadata(directory)?;
    if found.uid().to_string() == user() && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    // Somebody else made it, in a temporary directory that all share.
    let problem = format!("{} is not private to this user", directory.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

#[cfg(not(unix))]
fn create_private(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)
}

/// The effective user. There is no call for it in `std`; a file that this
/// process owns tells.
#[cfg(target_os = "linux")]
pub(crate) fn user() -> String {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").map_or_else(|_| "unknown".to_owned(), |m| m.uid().to_string())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn user() -> String {
    use std::env::var;
    var("USER")
        .or_else(|_| var("USERNAME"))
        .unwrap_or_else(|_| "unknown".to_owned())
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

    #[test]
    fn a_directory_keeps_its_domain() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let of = |dir: &tempfile::TempDir| Owner::in_directory(dir.path()).unwrap().domain;
        assert_eq!(of(&one), of(&one));
        assert_ne!(of(&one), of(&two));
    }
}
