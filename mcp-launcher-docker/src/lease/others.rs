//! The leases of other hosts.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::sync::Arc;

use tracing::warn;

use super::home::Home;
use super::sockets;

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

/// The leases in `homes`, dead and alive. The dead ones stay locked by us until
/// they are dropped.
pub(crate) fn others(homes: &[Arc<Home>]) -> io::Result<Vec<Other>> {
    let mut leases = Vec::new();
    for home in homes {
        for name in home.names()? {
            if let Some(instance) = instance_of(&name) {
                leases.extend(look(home, &name, instance)?);
            }
        }
    }
    Ok(leases)
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
/// Nothing is locked, so that it can be asked while [`others`] holds its own.
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
