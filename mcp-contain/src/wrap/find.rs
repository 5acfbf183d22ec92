//! Which files are looked at: those of the hosts, or those that were named.

use std::env;
use std::path::{Path, PathBuf};

use super::format::{Format, Table};
use super::hosts::{self, HOSTS, Host, System};

/// A file that may have servers.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// Whose it is; `None` for one that was named and is nobody's that is known.
    pub(crate) host: Option<&'static Host>,
    /// `true` for one in a project's directory, which people share.
    pub(crate) is_shared: bool,
    pub(crate) format: Format,
    pub(crate) tables: Vec<Table>,
}

/// The files of these hosts, of all if none is named: the user's, and those of the project in this
/// directory. Whether they are there is not looked at.
pub(crate) fn places(names: &[String], project: Option<&Path>) -> Vec<Place> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from);
    let wanted = |host: &&Host| names.is_empty() || names.iter().any(|name| name == host.name);
    let mut places = Vec::new();
    for host in HOSTS.iter().filter(wanted) {
        let own = host.places(System::HERE, &variable);
        let own = own.into_iter().map(|path| (path, false));
        let shared = project.map(|project| host.project_places(project));
        let shared = shared.into_iter().flatten().map(|path| (path, true));
        places.extend(own.chain(shared).map(|(path, is_shared)| Place {
            path,
            host: Some(host),
            is_shared,
            format: host.format,
            tables: host.tables.to_vec(),
        }));
    }
    places
}

/// A file that the user has named: a host's own, or one with servers in any of the tables that hosts use.
pub(crate) fn named(path: &Path) -> Place {
    let real = path.canonicalize().ok();
    let known = places(&[], env::current_dir().ok().as_deref()).into_iter();
    let mut known = known.filter(|place| real.is_some() && place.path.canonicalize().ok() == real);
    if let Some(place) = known.next() {
        let path = path.to_owned();
        return Place { path, ..place };
    }
    let is_toml = path
        .extension()
        .is_some_and(|extension| extension == "toml");
    let format = if is_toml { Format::Toml } else { Format::Json };
    Place {
        path: path.to_owned(),
        host: None,
        is_shared: false,
        format,
        tables: hosts::all_tables(format),
    }
}
