//! The lease of a host: a locked file that says that the host lives.
//!
//! The kernel releases the lock on any death of the host, so that nothing has
//! to be renewed and no pid is ever compared. The file holds the endpoints the
//! host has used, which is where its containers are to be looked for.
//!
//! A lease can be judged only by who sees the same directory: another user, a
//! host in a container or another machine may not. The directory therefore has
//! a random name of its own, its *domain*, that every container carries.

mod domain;
#[cfg_attr(not(unix), path = "home/elsewhere.rs")]
mod home;
mod others;
mod place;
mod sockets;

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tracing::warn;

pub(crate) use home::Home;
pub(crate) use others::{Other, Records, instances};
pub(crate) use place::Place;
pub(crate) use sockets::short_directories;

use crate::{control, machine};

/// How often a lease is looked after: a cleaner of temporary files goes by days.
const REFRESH: Duration = Duration::from_secs(3600);

/// How often a lease is taken anew that another host took for litter.
const ATTEMPTS: u32 = 8;

/// The labels by which the containers of an owner are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) domain: String,
    pub(crate) machine: String,
    pub(crate) boot: String,
}

impl Owner {
    /// An owner of this machine, with its leases in a directory of this name.
    fn in_domain(domain: String) -> Self {
        Self {
            domain,
            machine: machine::id(),
            boot: machine::boot(),
        }
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
    directory: PathBuf,
    held: Mutex<Held>,
}

/// A locked file in a directory that is held open. The directory can be removed, and
/// made again, as the file can.
#[derive(Debug)]
struct Held {
    home: Arc<Home>,
    file: File,
}

impl Lease {
    /// Takes a new lease in the first directory that will do, which is created when
    /// missing.
    pub(crate) fn take(place: &Place) -> io::Result<Self> {
        place.first(|home| Self::take_in(Arc::new(home)))
    }

    fn take_in(home: Arc<Home>) -> io::Result<Self> {
        let owner = Owner::in_domain(domain::of(&home)?);
        let instance = mcp_lifecycle_host::random::id()?;
        let file = held(&home, &instance, "")?;
        Ok(Self {
            instance,
            owner,
            directory: home.path().to_owned(),
            held: Mutex::new(Held { home, file }),
        })
    }

    /// Looks after the lease until it is dropped: a cleaner of temporary files
    /// judges by age, and what it has removed is made again. Begins by sweeping what
    /// killed hosts left.
    pub(crate) fn look_after(self: &Arc<Self>) -> io::Result<()> {
        let lease: Weak<Self> = Arc::downgrade(self);
        let (home, own) = (self.home(), self.instance.clone());
        control::spawn(async move {
            for name in home.names().unwrap_or_default() {
                domain::tidy(&home, &name);
            }
            sockets::sweep(home, own).await;
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
            let directory = self.directory.display();
            warn!(%directory, %error, "this host's lease cannot be kept");
        }
    }

    fn renew(&self) -> io::Result<()> {
        let mut held_now = self.held();
        if !held_now.home.is_there()? {
            // Removed with all that was in it.
            held_now.home = Arc::new(held_now.home.again()?);
        }
        let Held { home, file } = &mut *held_now;
        if !home.has(&name_of(&self.instance), file)? {
            let mut known = String::new();
            file.rewind()?;
            file.read_to_string(&mut known)?;
            *file = held(home, &self.instance, &known)?;
        }
        file.set_modified(SystemTime::now())?;
        // Its name is in the labels of all containers of this host.
        domain::keep(home, &self.owner.domain)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn home(&self) -> Arc<Home> {
        Arc::clone(&self.held().home)
    }

    /// The directory that it is in.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Where a socket of this owner goes, in its directory or a
    /// [short one](short_directories).
    pub(crate) fn socket(&self, directory: &Path, launch: &str) -> PathBuf {
        directory.join(sockets::name(&self.instance, launch))
    }

    /// Notes that containers are about to be created there. Before the first
    /// create, so that a host that dies within it is cleaned up after.
    pub(crate) fn note(&self, endpoint: &str) -> io::Result<()> {
        let file = &mut self.held().file;
        let mut known = String::new();
        file.rewind()?;
        file.read_to_string(&mut known)?;
        if known.lines().any(|line| line == endpoint) {
            return Ok(());
        }
        writeln!(file, "{endpoint}")
    }

    /// A program of these bytes in its directory, which stays, and which everybody may
    /// execute. Named by what is in it, so that another version is another file.
    pub(crate) fn keep_file(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        const MODE: home::Permissions = 0o555;
        let home = self.home();
        let path = home.path().join(name);
        let mut found = Vec::new();
        let is_fit = home.open_file(name).and_then(|file| {
            let most = bytes.len() as u64 + 1;
            (&file).take(most).read_to_end(&mut found)?;
            Home::has_mode(&file, MODE)
        });
        if is_fit.unwrap_or(false) && found == bytes {
            return Ok(path);
        }
        let nascent = format!("{}.new", mcp_lifecycle_host::random::id()?);
        home.create_new(&nascent, MODE)?.write_all(bytes)?;
        home.rename(&nascent, name)?;
        Ok(path)
    }
}

/// A locked file of this content, that then has its name: nobody ever sees a
/// lease that is not held.
fn held(home: &Home, instance: &str, content: &str) -> io::Result<File> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for _ in 0..ATTEMPTS {
        let nascent = format!("{}.new", mcp_lifecycle_host::random::id()?);
        let mut file = home.create_new(&nascent, 0o600)?;
        file.lock()?;
        file.write_all(content.as_bytes())?;
        match home.rename(&nascent, &name_of(instance)) {
            Ok(()) => return Ok(file),
            // Somebody took it for what a killed host had left.
            Err(error) if error.kind() == io::ErrorKind::NotFound => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn name_of(instance: &str) -> String {
    format!("{instance}.{}", others::SUFFIX)
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = self.home().remove(&name_of(&self.instance));
    }
}

#[cfg(test)]
mod tests;
