//! The ledger of a host: a locked file that proves that the host lives.
//!
//! The kernel releases the lock on any death of the host, so that nothing has to be renewed and no
//! pid is compared. The file lists the endpoints that the host has used, where its containers are
//! searched for.
//!
//! A ledger can be judged only by hosts that see the same directory: another user, a container or
//! another machine may not. So the directory has a random name, its *domain*, which every container
//! carries.

mod domain;
mod foreign_ledgers;
mod home;
mod sockets;

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tracing::warn;

pub(crate) use foreign_ledgers::{ForeignLedger, ForeignLedgers, Place, instances};
pub(crate) use home::Home;
pub(crate) use sockets::short_directories;

use crate::control::CONTROL;
use crate::machine;

/// Interval of renewals: cleaners of temporary files count in days.
const REFRESH: Duration = Duration::from_secs(3600);

/// The labels that identify an owner's containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) domain: String,
    pub(crate) machine: String,
    pub(crate) boot: String,
}

impl Owner {
    /// Returns the owner for ledgers of this machine in this domain.
    fn in_domain(domain: String) -> Self {
        Self {
            domain,
            machine: machine::id(),
            boot: machine::boot(),
        }
    }
}

/// A ledger that this process holds. Dropping it releases it and removes the file. Every container
/// holds the ledger that it was created under until it is proven gone.
#[derive(Debug)]
pub(crate) struct Ledger {
    instance: String,
    owner: Owner,
    directory: PathBuf,
    held: Mutex<Held>,
}

/// A locked file in an open directory. Both can be removed and created again.
#[derive(Debug)]
struct Held {
    home: Arc<Home>,
    file: File,
}

impl Ledger {
    /// Takes a new ledger in the first usable directory, which is created if missing.
    pub(crate) fn take(place: &Place) -> io::Result<Self> {
        place.first(|home| Self::take_in(Arc::new(home)))
    }

    fn take_in(home: Arc<Home>) -> io::Result<Self> {
        let owner = Owner::in_domain(domain::of(&home)?);
        let instance = mcp_lifecycle_core::backend::random::id()?;
        let file = held(&home, &instance, "")?;
        Ok(Self {
            instance,
            owner,
            directory: home.path().to_owned(),
            held: Mutex::new(Held { home, file }),
        })
    }

    /// Renews the ledger until it is dropped, so that a cleaner of temporary files does not remove
    /// it, and creates it again if one did.
    pub(crate) fn look_after(self: &Arc<Self>) -> io::Result<()> {
        let ledger: Weak<Self> = Arc::downgrade(self);
        CONTROL.spawn(async move {
            loop {
                tokio::time::sleep(REFRESH).await;
                let Some(ledger) = ledger.upgrade() else {
                    return;
                };
                ledger.refresh();
            }
        })?;
        Ok(())
    }

    /// Makes sure that the ledger is at its path and recent.
    pub(crate) fn refresh(&self) {
        if let Err(error) = self.renew() {
            let directory = self.directory.display();
            warn!(%directory, %error, "this host's ledger cannot be kept");
        }
    }

    fn renew(&self) -> io::Result<()> {
        let mut held_now = self.held();
        if !held_now.home.is_there()? {
            // Removed with everything in it.
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

    /// Returns the directory of the ledger.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Returns the path of a socket of this owner, in its directory or a [short
    /// one](short_directories).
    pub(crate) fn socket(&self, directory: &Path, launch: &str) -> PathBuf {
        directory.join(sockets::name(&self.instance, launch))
    }

    /// Records that containers are about to be created there. Called before the first creation, so
    /// that a host that dies within it is cleaned up.
    pub(crate) fn note(&self, endpoint: &str) -> io::Result<()> {
        let file = &mut self.held().file;
        let mut known = String::new();
        file.rewind()?;
        file.read_to_string(&mut known)?;
        if known.lines().any(|line| line == endpoint) {
            return Ok(());
        }
        write(file, format!("{endpoint}\n").as_bytes())
    }

    /// Stores a program in its directory, executable by every user.
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
        let nascent = format!("{}.new", mcp_lifecycle_core::backend::random::id()?);
        write(&mut home.create_new(&nascent, MODE)?, bytes)?;
        home.rename(&nascent, name)?;
        Ok(path)
    }
}

/// Creates a locked file with this content and then names it, so that a ledger is never seen
/// unlocked.
fn held(home: &Home, instance: &str, content: &str) -> io::Result<File> {
    let nascent = format!("{}.new", mcp_lifecycle_core::backend::random::id()?);
    let mut file = home.create_new(&nascent, 0o600)?;
    file.lock()?;
    write(&mut file, content.as_bytes())?;
    home.rename(&nascent, &name_of(instance))?;
    Ok(file)
}

/// Writes to a file of a ledger directory. Beyond a limit on the size of files this is an error, and
/// no signal that ends the host.
fn write(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return mcp_guardian::file_size::shielded(|| file.write_all(bytes));
    #[cfg(not(target_os = "linux"))]
    file.write_all(bytes)
}

fn name_of(instance: &str) -> String {
    format!("{instance}.{}", foreign_ledgers::SUFFIX)
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let _ = self.home().remove(&name_of(&self.instance));
    }
}

#[cfg(test)]
mod tests;
