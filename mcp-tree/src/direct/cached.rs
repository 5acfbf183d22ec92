//! A package in the cache of `npx`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::{Refusal, begins, own, require, text_of};

/// The file `package.json` of a package.
#[derive(Debug, Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct Manifest {
    pub(super) name: String,
    pub(super) version: String,
    bin: Value,
}

impl Manifest {
    pub(super) fn read(home: &Path) -> Result<Self, Refusal> {
        let text = text_of(&home.join("package.json"), Refusal::Copy)?;
        serde_json::from_str(&text).map_err(|_| Refusal::Copy)
    }

    /// Returns the name of the program that npx starts.
    pub(super) fn entry(&self) -> Option<String> {
        let unscoped = self.name.rsplit('/').next()?;
        match &self.bin {
            Value::String(_) => Some(unscoped.to_owned()),
            Value::Object(bins) if bins.len() == 1 => bins.keys().next().cloned(),
            Value::Object(bins) if bins.contains_key(unscoped) => {
                let files: BTreeSet<_> = bins.values().map(Value::as_str).collect();
                // If all are the same file, npx takes the first, and their order is not known.
                (files.len() > 1).then(|| unscoped.to_owned())
            }
            _ => None,
        }
    }
}

/// The record that npm keeps of an install.
#[derive(Deserialize)]
pub(super) struct Record {
    pub(super) packages: BTreeMap<String, Recorded>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Recorded {
    pub(super) name: Option<String>,
    version: String,
    link: bool,
}

impl Record {
    pub(super) fn read(modules: &Path) -> Option<Self> {
        let text = text_of(&modules.join(".package-lock.json"), Refusal::Copy);
        serde_json::from_str(&text.ok()?).ok()
    }

    /// Returns whether the record of an install is no older than a directory of it.
    pub(super) fn covers(modules: &Path, directory: &Path) -> bool {
        let of = |path: &Path| path.metadata().and_then(|it| it.modified()).ok();
        let record = of(&modules.join(".package-lock.json"));
        record.is_some() && record >= of(directory)
    }
}

/// A whole install of one package, of this user.
#[derive(Debug)]
pub(super) struct Copy {
    modules: PathBuf,
    /// The directory of the package.
    home: PathBuf,
    pub(super) package: Manifest,
}

impl Copy {
    pub(super) fn open(directory: &Path, name: &str, raw: &str) -> Result<Self, Refusal> {
        let modules = directory.join("node_modules");
        let home = modules.join(name);
        require(home.exists(), Refusal::Missing(raw.to_owned()))?;
        let is_locked = directory
            .join("concurrency.lock")
            .symlink_metadata()
            .is_ok();
        require(!is_locked, Refusal::Copy)?;
        require(own(directory)?.is_dir(), Refusal::Copy)?;
        for inner in home.ancestors().take_while(|it| *it != directory) {
            let is_known = own(inner)?.is_dir() && Record::covers(&modules, inner);
            require(is_known, Refusal::Copy)?;
        }
        for file in [
            modules.join(".package-lock.json"),
            home.join("package.json"),
        ] {
            require(own(&file)?.is_file(), Refusal::Copy)?;
        }
        let record = Record::read(&modules).ok_or(Refusal::Copy)?;
        let recorded = record.packages.get(&format!("node_modules/{name}"));
        let package = Manifest::read(&home)?;
        let is_same = recorded.is_some_and(|it| it.version == package.version && !it.link);
        require(is_same && package.name == name, Refusal::Copy)?;
        Ok(Self {
            modules,
            home,
            package,
        })
    }

    /// Returns the link to a program: of the package, or else of any package of this install.
    pub(super) fn program(&self, bin: &str, of_any: bool) -> Result<PathBuf, Refusal> {
        let bins = self.modules.join(".bin");
        let link = bins.join(bin);
        let is_link = own(&bins)?.is_dir() && own(&link)?.is_symlink();
        let inside = if of_any { &self.modules } else { &self.home };
        let (Ok(inside), Ok(target)) = (inside.canonicalize(), link.canonicalize()) else {
            return Err(Refusal::Entry);
        };
        let is_inside = is_link && target.starts_with(inside) && own(&target)?.is_file();
        let is_program = begins(&target, b"#!") || begins(&target, b"\x7fELF");
        let may_run = is_inside && is_program && crate::sys::may_execute(&target);
        require(may_run, Refusal::Entry)?;
        Ok(link)
    }
}
