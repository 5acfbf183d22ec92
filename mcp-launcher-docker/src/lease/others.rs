//! The leases of other hosts.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use tracing::warn;

use super::home::Home;
use super::place::{Homes, Place};
use super::{domain, sockets};

pub(super) const SUFFIX: &str = "lease";

/// The longest lease that is read.
const LONGEST: u64 = 1024 * 1024;

/// A lease of somebody else's, as found in a directory.
#[derive(Debug)]
pub(crate) struct Other {
    pub(crate) instance: String,
    /// Where its containers are; known of a dead owner only.
    pub(crate) endpoints: Vec<String>,
    pub(crate) alive: bool,
    home: Arc<Home>,
    name: String,
    /// Locked by us, so that nobody else cleans up at the same time.
    _lock: Option<File>,
}

impl Other {
    /// Forgets it, once nothing of its owner is left, with its sockets.
    pub(crate) fn forget(self) {
        sockets::remove_of(&self.instance, self.home.path());
        let _ = self.home.remove(&self.name);
    }
}

/// The leases in the directories of a place.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// The directories that are there and can be looked into.
    pub(crate) homes: Vec<Arc<Home>>,
    /// Their names, as far as they have one.
    pub(crate) domains: Vec<String>,
    /// The leases, dead and alive. The dead ones stay locked by us until they are
    /// dropped.
    pub(crate) others: Vec<Other>,
    /// The directories and files that cannot be read, and why. They keep nobody from
    /// reading the others; whose lease it is may live.
    pub(crate) unreadable: Vec<(PathBuf, io::Error)>,
}

impl Place {
    /// Reads what is on record.
    pub(crate) fn records(&self) -> Records {
        let Homes { open, unusable } = self.all();
        let mut records = Records {
            unreadable: unusable,
            ..Records::default()
        };
        for home in open {
            match home.names() {
                Ok(names) => records.read(home, &names),
                Err(error) => records.unreadable.push((home.path().to_owned(), error)),
            }
        }
        records
    }
}

impl Records {
    fn read(&mut self, home: Arc<Home>, names: &[String]) {
        match domain::read(&home) {
            Ok(domain) => self.domains.extend(domain),
            Err(error) => self
                .unreadable
                .push((home.path().join(domain::NAME), error)),
        }
        let instances = names
            .iter()
            .filter_map(|name| Some((name, instance_of(name)?)));
        for (name, instance) in instances {
            match look(&home, name, instance) {
                Ok(other) => self.others.extend(other),
                Err(error) => self.unreadable.push((home.path().join(name), error)),
            }
        }
        self.homes.push(home);
    }
}

fn look(home: &Arc<Home>, name: &str, instance: &str) -> io::Result<Option<Other>> {
    let mut file = match home.open_file(name) {
        Ok(file) => file,
        // Given back in this moment.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let path = home.path().join(name);
            warn!(lease = %path.display(), %error, "not a lease of this user");
            return Ok(None);
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
    Ok(Some(Other {
        instance: instance.to_owned(),
        endpoints: text.lines().map(str::to_owned).collect(),
        alive,
        home: Arc::clone(home),
        name: name.to_owned(),
        _lock: (!alive).then_some(file),
    }))
}

/// The instances whose leases are in `homes` at this moment, held or not.
///
/// Nothing is locked, so that it can be asked while [`Records`] hold theirs.
pub(crate) fn instances(homes: &[Arc<Home>]) -> io::Result<BTreeSet<String>> {
    let mut instances = BTreeSet::new();
    for home in homes {
        let names = home.names()?;
        instances.extend(
            names
                .iter()
                .filter_map(|name| instance_of(name))
                .map(str::to_owned),
        );
    }
    Ok(instances)
}

/// The instance whose lease this file is, if it is one.
fn instance_of(name: &str) -> Option<&str> {
    let (instance, suffix) = name.rsplit_once('.')?;
    (suffix == SUFFIX && !instance.is_empty()).then_some(instance)
}
