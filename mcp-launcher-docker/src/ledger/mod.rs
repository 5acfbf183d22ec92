//! The ledger of a host: a locked file that proves that the host lives.
//!
//! The kernel releases the lock on any death of the host, so that nothing has to be renewed and no
//! pid is compared. The file lists the endpoints that the host has used, where its containers are
//! searched for.
//!
//! A ledger can be judged only by hosts that see the same directory: another user, a container or
//! another machine may not. So the directory has a random name, its *domain*, which every container
//! carries.

mod foreign_ledgers;
mod home;
mod sockets;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use mcp_lifecycle_core::lock::Lock;

use nix::sys::stat::{Mode, fstat};
use tracing::warn;

pub(crate) use foreign_ledgers::{ForeignLedger, ForeignLedgers, Place, instances};
pub(crate) use home::Home;
pub(crate) use sockets::short_directories;

use crate::control::CONTROL;

/// Interval of renewals: cleaners of temporary files count in days.
const REFRESH: Duration = Duration::from_secs(3600);

/// A ledger that this process holds. Dropping it releases it and removes the file. Every container
/// holds the ledger that it was created under until it is proven gone.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) instance: String,
    /// The name of its directory, by which its containers are judged.
    pub(crate) domain: String,
    pub(crate) directory: PathBuf,
    held: Lock<Held>,
}

/// A locked file in an open directory. Both can be removed and created again.
#[derive(Debug)]
struct Held {
    home: Home,
    file: File,
    noted: String,
}

impl Ledger {
    /// Takes a new ledger in the first usable directory, which is created if missing.
    pub(crate) fn take(place: &Place) -> io::Result<Self> {
        place.first(|home| {
            let domain = home::domain_of(&home)?;
            let instance = mcp_lifecycle_core::backend::random::id()?;
            let (file, noted) = (locked(&home, &instance, "")?, String::new());
            Ok(Self {
                instance,
                domain,
                directory: home.path.to_owned(),
                held: Lock::new(Held { home, file, noted }),
            })
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

    pub(crate) fn refresh(&self) {
        if let Err(error) = self.renew() {
            let directory = self.directory.display();
            warn!(%directory, %error, "this host's ledger cannot be kept");
        }
    }

    fn renew(&self) -> io::Result<()> {
        let held = &mut *self.held.lock();
        if !is_at(&self.directory.join(name_of(&self.instance)), &held.file) {
            // It was removed, maybe with its directory.
            held.home = Home::make(&self.directory, held.home.of_user).map_err(home::problem)?;
            held.file = locked(&held.home, &self.instance, &held.noted)?;
        }
        held.file.set_modified(SystemTime::now())?;
        // Its name is in the labels of all containers of this host.
        home::keep_domain(&held.home, &self.domain)
    }

    /// Returns the path of a socket of this owner, in its directory or a [short
    /// one](short_directories).
    pub(crate) fn socket(&self, directory: &Path, launch: &str) -> PathBuf {
        directory.join(sockets::name(&self.instance, launch))
    }

    /// Records that containers are about to be created there. Called before the first creation, so
    /// that a host that dies within it is cleaned up.
    pub(crate) fn note(&self, endpoint: &str) -> io::Result<()> {
        let held = &mut *self.held.lock();
        if !held.noted.lines().any(|line| line == endpoint) {
            let line = format!("{endpoint}\n");
            write(&mut held.file, line.as_bytes())?;
            held.noted.push_str(&line);
        }
        Ok(())
    }

    /// Stores a program in its directory, executable by every user.
    pub(crate) fn keep_file(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        const MODE: Mode = Mode::from_bits_truncate(0o555);
        let held = self.held.lock();
        let home = &held.home;
        let path = home.path.join(name);
        let is_fit = |file: File| -> io::Result<bool> {
            let mut found = Vec::new();
            let most = bytes.len() as u64 + 1;
            (&file).take(most).read_to_end(&mut found)?;
            let mode = Mode::from_bits_truncate(fstat(&file)?.st_mode);
            Ok(mode == MODE && found == bytes)
        };
        if home.open_file(name).and_then(is_fit).unwrap_or(false) {
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
fn locked(home: &Home, instance: &str, content: &str) -> io::Result<File> {
    let nascent = format!("{}.new", mcp_lifecycle_core::backend::random::id()?);
    let mut file = home.create_new(&nascent, home::PRIVATE)?;
    file.lock()?;
    write(&mut file, content.as_bytes())?;
    home.rename(&nascent, &name_of(instance))?;
    Ok(file)
}

fn is_at(path: &Path, file: &File) -> bool {
    match (fs::symlink_metadata(path), file.metadata()) {
        (Ok(found), Ok(own)) => (found.dev(), found.ino()) == (own.dev(), own.ino()),
        _ => false,
    }
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
        let _ = self.held.lock().home.remove(&name_of(&self.instance));
    }
}

#[cfg(test)]
mod tests;
