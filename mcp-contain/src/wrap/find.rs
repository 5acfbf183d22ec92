//! Lists the files to examine: those of the hosts, or the named ones.

use std::env;
use std::path::{Path, PathBuf};

use mcp_lifecycle_core::document::Format;

use super::format::Table;
use super::hosts::{self, HOSTS, Host};

#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// Its host; `None` for a named file of no known host.
    pub(crate) host: Option<&'static Host>,
    pub(crate) is_shared: bool,
    pub(crate) format: Format,
    pub(crate) tables: Vec<Table>,
}

/// Lists the files of these hosts, or of all, and those of the project. They may not exist.
pub(crate) fn places(names: &[String], project: Option<&Path>) -> Vec<Place> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from);
    let wanted = |host: &&Host| names.is_empty() || names.iter().any(|name| name == host.name);
    let mut places: Vec<Place> = Vec::new();
    for host in HOSTS.iter().filter(wanted) {
        let own = host.places(cfg!(windows), &variable);
        let own = own.into_iter().map(|path| (path, false));
        let shared = project.into_iter().flat_map(|project| {
            let files = host.project.iter();
            files.map(|file| (project.join(file), true))
        });
        for (path, is_shared) in own.chain(shared) {
            // A variable may name the usual place, and a home may be a project's directory.
            if !places.iter().any(|place| place.path == path) {
                places.push(Place {
                    path,
                    host: Some(host),
                    is_shared,
                    format: host.format,
                    tables: host.tables.to_vec(),
                });
            }
        }
    }
    places
}

/// Returns a file that the user named: a host's own, or one with servers in any known table.
pub(crate) fn named(path: &Path) -> Place {
    let real = path.canonicalize().ok();
    let known = places(&[], env::current_dir().ok().as_deref()).into_iter();
    let mut known = known.filter(|place| real.is_some() && place.path.canonicalize().ok() == real);
    if let Some(place) = known.next() {
        let path = path.to_owned();
        return Place { path, ..place };
    }
    let format = Format::of(path);
    Place {
        path: path.to_owned(),
        host: None,
        is_shared: false,
        format,
        tables: hosts::all_tables(format),
    }
}
