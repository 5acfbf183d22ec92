//! The ledgers on record: written to the first usable directory, read in all.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use tracing::{debug, warn};

use super::home::{self, Home, Refused};
use super::sockets;

pub(super) const SUFFIX: &str = "ledger";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Place {
    /// The directories that depend on the user ID, so that hosts find each other's ledgers with any
    /// environment.
    #[default]
    OfUser,
    At(PathBuf),
}

#[derive(Debug)]
pub(crate) struct ForeignLedger {
    pub(crate) instance: String,
    /// The endpoints of its containers; read only if the owner is dead.
    pub(crate) endpoints: Vec<String>,
    pub(crate) alive: bool,
    home: Arc<Home>,
    name: String,
    /// Our lock, so that only one host cleans up at a time.
    _lock: Option<File>,
}

impl ForeignLedger {
    /// Removes it with its sockets, once nothing of its owner is left.
    pub(crate) fn forget(self) {
        sockets::remove_of(&self.instance, &self.home.path);
        let _ = self.home.remove(&self.name);
    }
}

#[derive(Debug, Default)]
pub(crate) struct ForeignLedgers {
    pub(crate) homes: Vec<Arc<Home>>,
    pub(crate) domains: Vec<String>,
    /// The ledgers, dead and alive. We lock the dead ones until they are dropped.
    pub(crate) others: Vec<ForeignLedger>,
    /// The unreadable directories and files, with reasons. Their hosts may live; the other ledgers
    /// are still usable.
    pub(crate) unreadable: Vec<(PathBuf, io::Error)>,
}

impl Place {
    fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::OfUser => home::candidates(),
            Self::At(path) => vec![path.clone()],
        }
    }

    fn is_of_user(&self) -> bool {
        *self == Self::OfUser
    }

    pub(super) fn first<T>(&self, take: impl Fn(Home) -> io::Result<T>) -> io::Result<T> {
        let (mut last, paths) = (None, self.paths());
        for path in &paths {
            let error = match Home::make(path, self.is_of_user()) {
                Ok(home) => match take(home) {
                    Ok(taken) => return Ok(taken),
                    Err(error) => error,
                },
                Err(Refused::Missing) => continue,
                Err(refused) => home::problem(refused),
            };
            warn!(directory = %path.display(), %error, "ledgers cannot be kept here");
            last = Some(error);
        }
        let all = paths.iter().map(|path| path.display().to_string());
        let all = all.collect::<Vec<_>>().join(", ");
        let last = last.map_or_else(String::new, |error| format!("; the last: {error}"));
        Err(io::Error::other(format!("none of {all} can be used{last}")))
    }

    pub(crate) fn records(&self) -> ForeignLedgers {
        let mut records = ForeignLedgers::default();
        for path in self.paths() {
            let read = match Home::open(&path, self.is_of_user()) {
                Ok(home) => home.names().map(|names| records.read(home, &names)),
                Err(Refused::Missing) => Ok(()),
                Err(Refused::Foreign(owner)) => {
                    debug!(?path, owner, "a directory is another user's");
                    Ok(())
                }
                Err(Refused::Unusable(error)) => Err(error),
            };
            if let Err(error) = read {
                records.unreadable.push((path, error));
            }
        }
        records
    }
}

impl ForeignLedgers {
    fn read(&mut self, home: Home, names: &[String]) {
        let home = Arc::new(home);
        match home::read_domain(&home) {
            Ok(domain) => self.domains.extend(domain),
            Err(error) => self.unreadable.push((home.path.join(home::DOMAIN), error)),
        }
        let instances = names
            .iter()
            .filter_map(|name| Some((name, instance_of(name)?)));
        for (name, instance) in instances {
            match look(&home, name, instance) {
                Ok(other) => self.others.extend(other),
                Err(error) => self.unreadable.push((home.path.join(name), error)),
            }
        }
        self.homes.push(home);
    }
}

fn look(home: &Arc<Home>, name: &str, instance: &str) -> io::Result<Option<ForeignLedger>> {
    let mut file = match home.open_file(name) {
        Ok(file) => file,
        // It was just released.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let path = home.path.join(name);
            warn!(ledger = %path.display(), %error, "not a ledger of this user");
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
            .take(1024 * 1024)
            .read_to_string(&mut text)?;
    }
    Ok(Some(ForeignLedger {
        instance: instance.to_owned(),
        endpoints: text.lines().map(str::to_owned).collect(),
        alive,
        home: Arc::clone(home),
        name: name.to_owned(),
        _lock: (!alive).then_some(file),
    }))
}

/// Lists the instances with a ledger, held or not. Locks nothing.
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

fn instance_of(name: &str) -> Option<&str> {
    let (instance, suffix) = name.rsplit_once('.')?;
    (suffix == SUFFIX && !instance.is_empty()).then_some(instance)
}
