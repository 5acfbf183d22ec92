//! The directories of leases: written to the first that will do, read in all.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tracing::{debug, warn};

use super::home::{self, Home, Refused};

/// Where the leases of a launcher are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Place {
    /// The directory that follows from the user's number, so that hosts find each other's whatever
    /// their environment is.
    #[default]
    OfUser,
    /// The application's choice.
    At(PathBuf),
}

/// The directories that are found at a [`Place`].
#[derive(Debug, Default)]
pub(super) struct Homes {
    pub(super) open: Vec<Arc<Home>>,
    /// Those that cannot be looked into, and why.
    pub(super) unusable: Vec<(PathBuf, io::Error)>,
}

impl Place {
    /// The first directory in which `take` succeeds, made if it is missing.
    pub(super) fn first<T>(&self, take: impl Fn(Home) -> io::Result<T>) -> io::Result<T> {
        let path = match self {
            Self::OfUser => return first_of(&home::candidates(), take),
            Self::At(path) => path,
        };
        take(Home::make_at(path)?)
    }

    /// The directories that are there.
    pub(super) fn all(&self) -> Homes {
        let mut homes = Homes::default();
        let named = |path: &PathBuf| {
            Home::open_at(path).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Refused::Missing,
                _ => Refused::Unusable(error),
            })
        };
        let found: Vec<_> = match self {
            Self::OfUser => {
                let paths = home::candidates().into_iter();
                let opened = paths.map(|path| (Home::open(&path), path));
                opened.collect()
            }
            Self::At(path) => vec![(named(path), path.clone())],
        };
        for (opened, path) in found {
            match opened {
                Ok(home) => homes.open.push(Arc::new(home)),
                Err(Refused::Missing) => {}
                Err(Refused::Foreign(owner)) => {
                    debug!(?path, owner, "a directory is another user's");
                }
                Err(Refused::Unusable(error)) => homes.unusable.push((path, error)),
            }
        }
        homes
    }
}

fn first_of<T>(paths: &[PathBuf], take: impl Fn(Home) -> io::Result<T>) -> io::Result<T> {
    let mut last = None;
    for path in paths {
        let error = match Home::make(path) {
            Ok(home) => match take(home) {
                Ok(taken) => return Ok(taken),
                Err(error) => error,
            },
            Err(Refused::Missing) => continue,
            Err(Refused::Foreign(owner)) => io::Error::other(format!("it belongs to user {owner}")),
            Err(Refused::Unusable(error)) => error,
        };
        warn!(directory = %path.display(), %error, "leases cannot be kept here");
        last = Some(error);
    }
    let all = paths.iter().map(|path| path.display().to_string());
    let all = all.collect::<Vec<_>>().join(", ");
    let last = last.map_or_else(String::new, |error| format!("; the last: {error}"));
    Err(io::Error::other(format!("none of {all} can be used{last}")))
}
