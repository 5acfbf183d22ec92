//! The ledgers of all directories.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use mcp_lifecycle_core::launch::{Remnant, UnknownRemnant};

use super::directory::{self, Refused};
use super::format::Contents;
use super::processes::LivingHost;
use super::shelf::{self, Found};
use super::sight::Sight;
use super::verdict::DeadHost;
use crate::sys;

/// What all directories hold.
#[derive(Default)]
pub(super) struct Shelves {
    pub(super) open: Vec<(PathBuf, OwnedFd)>,
    pub(super) dead: Vec<Shelved>,
    /// The ledgers of hosts that live.
    pub(super) living: Vec<Contents>,
}

/// The ledger of a dead host, and in which of the directories it is.
pub(super) struct Shelved {
    pub(super) directory: usize,
    pub(super) name: OsString,
    pub(super) contents: Contents,
}

impl Shelved {
    pub(super) fn host(&self) -> DeadHost {
        DeadHost {
            id: self.contents.host.clone(),
            namespace: self.contents.namespace,
            servers: self
                .contents
                .servers
                .iter()
                .filter_map(|it| it.process)
                .collect(),
        }
    }
}

impl Shelves {
    /// No file stays open: a host that is dead stays dead, and a process of it
    /// that two searches end at once is dead as well.
    pub(super) fn look(sight: &Sight, unknown: &mut Vec<UnknownRemnant>) -> Self {
        let mut shelves = Self::default();
        let mut unusable = |path: &Path, why: String| {
            let record = Remnant::record(path.to_string_lossy(), "whatever it says");
            unknown.push(UnknownRemnant::new(record, why));
        };
        for path in directory::candidates() {
            let listed = directory::open_own(&path).and_then(|directory| {
                let names = directory::names(&directory).map_err(Refused::Unusable)?;
                Ok((directory, names))
            });
            match listed {
                Ok((directory, names)) => {
                    for name in names {
                        if let Some(why) = shelves.sort(&directory, name.clone(), sight) {
                            unusable(&path.join(name), why);
                        }
                    }
                    shelves.open.push((path, directory));
                }
                Err(Refused::Missing) => {}
                Err(Refused::Foreign(owner)) => {
                    sys::shielded(|| {
                        tracing::debug!(?path, owner, "a directory is another user's");
                    });
                }
                Err(Refused::Unusable(error)) => unusable(&path, error.to_string()),
            }
        }
        // A copy of a ledger proves nothing while its host holds another one.
        let living: BTreeSet<_> = shelves.living.iter().map(|it| &it.host).collect();
        shelves
            .dead
            .retain(|dead| !living.contains(&dead.contents.host));
        shelves
    }

    pub(super) fn living_hosts(&self) -> Vec<LivingHost> {
        let host = |contents: &Contents| LivingHost {
            id: contents.host.clone(),
            namespace: contents.namespace,
        };
        self.living.iter().map(host).collect()
    }

    /// Says why a ledger cannot be used, if that is so.
    fn sort(&mut self, directory: &OwnedFd, name: OsString, sight: &Sight) -> Option<String> {
        match shelf::look(directory, &name, sight)? {
            Found::Dead(contents) => self.dead.push(Shelved {
                directory: self.open.len(),
                name,
                contents,
            }),
            Found::Living(contents) => self.living.extend(contents),
            Found::Litter => shelf::remove(directory, &name),
            Found::Unusable(why) => return Some(why),
        }
        None
    }

    pub(super) fn path(&self, shelved: &Shelved) -> PathBuf {
        self.open[shelved.directory].0.join(&shelved.name)
    }
}
