//! The ledgers of other hosts, in all directories.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::fcntl::OFlag;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::directory;
use super::format::{self, Contents, MAX, Record};
use super::locked_file::Locked;
use super::verdict::DeadHost;
use super::visibility::Visibility;
use crate::cgroup;
use crate::sys;
use mcp_lifecycle_core::launch::{Remnant, UnknownRemnant};

#[derive(Default)]
pub(super) struct Ledgers {
    pub(super) dead: Vec<DeadLedger>,
    pub(super) living: Vec<Contents>,
}

pub(super) struct DeadLedger {
    directory: Rc<OwnedFd>,
    pub(super) path: PathBuf,
    pub(super) contents: Contents,
}

impl DeadLedger {
    pub(super) fn host(&self) -> DeadHost {
        let servers = self.contents.servers.iter();
        DeadHost {
            id: self.contents.host.clone(),
            namespace: self.contents.namespace,
            servers: servers.filter_map(|it| it.process).collect(),
        }
    }

    /// Removes its cgroups that have no members, and returns whether none is left. Guardians leave
    /// empty ones when their host is killed.
    pub(super) fn has_no_cgroups(&self) -> bool {
        let is_gone = |server: &Record| {
            let leaf = find_leaf(&self.contents, server);
            let removed = leaf.map(|leaf| leaf.map_or(Ok(()), fs::remove_dir));
            server.in_cgroup
                && match removed {
                    Ok(Err(error)) => error.kind() == io::ErrorKind::NotFound,
                    removed => removed.is_ok(),
                }
        };
        let servers: Vec<_> = self.contents.servers.iter().map(is_gone).collect();
        self.contents.unreadable == 0 && !servers.contains(&false)
    }

    pub(super) fn remove(&self) {
        remove(&self.directory, self.path.file_name().unwrap_or_default());
    }
}

impl Ledgers {
    /// Reads those of these directories, and removes litter. No file remains open.
    pub(super) fn look(
        directories: impl IntoIterator<Item = PathBuf>,
        visibility: &Visibility,
        unknown: &mut Vec<UnknownRemnant>,
    ) -> Self {
        let mut ledgers = Self::default();
        let mut unusable = |path: &Path, why: String| {
            let record = Remnant::record(path.to_string_lossy(), "unknown content");
            unknown.push(UnknownRemnant::new(record, why));
        };
        for (path, directory) in directory::open_own(directories) {
            let listed = directory.and_then(|it| Ok((directory::names(&it)?, Rc::new(it))));
            let (names, directory) = match listed {
                Ok(listed) => listed,
                Err(error) => {
                    unusable(&path, error.to_string());
                    continue;
                }
            };
            for name in names {
                let path = path.join(&name);
                match look(&directory, &name, visibility) {
                    Ok(Found::Dead(contents)) => ledgers.dead.push(DeadLedger {
                        directory: Rc::clone(&directory),
                        path,
                        contents,
                    }),
                    Ok(Found::Living(contents)) => ledgers.living.extend(contents),
                    Ok(Found::Litter) => remove(&directory, &name),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => unusable(&path, error.to_string()),
                }
            }
        }
        // A copy of a ledger proves nothing while its host holds the lock of another one.
        let living: BTreeSet<_> = ledgers.living.iter().map(|it| &it.host).collect();
        ledgers
            .dead
            .retain(|dead| !living.contains(&dead.contents.host));
        ledgers
    }
}

/// The kind of a file with the name of a ledger.
#[derive(Debug)]
enum Found {
    /// Its host lives, as far as can be found out.
    Living(Option<Contents>),
    Dead(Contents),
    /// Nothing of its servers can be left: it was written before this boot, or its host died before
    /// the ledger got its name.
    Litter,
}

/// Opens the file `name` and finds out the state of its host.
fn look(directory: &OwnedFd, name: &OsStr, visibility: &Visibility) -> io::Result<Found> {
    let file = &directory::open_file(directory, name, OFlag::O_RDWR)?;
    // A host holds it exclusively. Inspecting processes share it, and do not take each other for hosts.
    match Locked::shared(file) {
        Err(TryLockError::WouldBlock) => Ok(Found::Living(read(file)?)),
        Err(TryLockError::Error(error)) => {
            Err(io::Error::other(format!("it cannot be locked: {error}")))
        }
        // An unlocked one never gets its name: its host has died, or will create another one.
        Ok(_) if name.as_encoded_bytes().ends_with(b".new") => Ok(Found::Litter),
        Ok(_lock) => {
            let is_old = file.metadata()?.mtime() < visibility.boot_time;
            Ok(match read(file)? {
                Some(contents) if contents.host.boot_id() != visibility.boot_id => match is_old {
                    true => Found::Litter,
                    // It may be of a host in a virtual machine that shares the directory.
                    false => return Err(io::Error::other("it was written in another boot")),
                },
                Some(contents) if is_alive(&contents, visibility) => Found::Living(Some(contents)),
                Some(contents) => Found::Dead(contents),
                None if is_old => Found::Litter,
                None => return Err(io::Error::other("it is no ledger of this version")),
            })
        }
    }
}

/// Returns whether the process of this host lives: locks may have no effect on this file system.
fn is_alive(contents: &Contents, visibility: &Visibility) -> bool {
    let host = &contents.host;
    let is_host = |seen: sys::Seen| seen.start_time == host.start_time() && !seen.is_ending;
    contents.namespace == visibility.namespace
        && visibility.proc_is_own
        && sys::see(host.pid()).is_some_and(is_host)
}

fn read(file: &File) -> io::Result<Option<Contents>> {
    let mut bytes = Vec::new();
    file.take(MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(format::parse(&bytes))
}

fn remove(directory: &OwnedFd, name: &OsStr) {
    if let Err(error) = unlinkat(directory, name, UnlinkatFlags::NoRemoveDir) {
        crate::logged!(debug, %error, "the ledger of a dead host cannot be removed");
    }
}

/// Finds the cgroup of a dead host's server; `None` if it is gone.
pub(super) fn find_leaf(contents: &Contents, server: &Record) -> Result<Option<PathBuf>, String> {
    if !server.in_cgroup {
        return Err("it has neither a mark nor a cgroup to be found by".to_owned());
    }
    let place = contents.cgroups.as_ref();
    let place = place.ok_or("its ledger does not say where its cgroup is")?;
    place.find(&cgroup::name(&contents.cookie(*server)))
}
