//! The package that a program belongs to.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Returns the name and the version of the package of a program: of npm, or in a virtual environment
/// of Python.
pub fn package_of(program: &Path) -> Option<String> {
    let bin = program.parent()?;
    match bin.ends_with("node_modules/.bin") {
        true => of_node(program),
        false => of_python(bin, program.file_name()?.to_str()?),
    }
}

#[derive(Deserialize)]
struct Manifest {
    name: String,
    version: String,
}

fn of_node(program: &Path) -> Option<String> {
    let target = program.canonicalize().ok()?;
    let manifests = target.ancestors().map(|it| it.join("package.json"));
    let mut texts = manifests.filter_map(|it| read(it).ok());
    let package = texts.find_map(|text| serde_json::from_str::<Manifest>(&text).ok())?;
    Some(format!("{}@{}", package.name, package.version))
}

fn of_python(bin: &Path, program: &str) -> Option<String> {
    let environment = bin.parent()?;
    environment.join("pyvenv.cfg").metadata().ok()?;
    let library = fs::read_dir(environment.join("lib")).ok()?.next()?.ok()?;
    let installed = fs::read_dir(library.path().join("site-packages")).ok()?;
    let has_program = |entries: String| {
        let mut names = entries.lines().filter_map(|line| line.split_once('='));
        names.any(|(name, _)| name.trim() == program)
    };
    installed.flatten().find_map(|entry| {
        let entries = read(entry.path().join("entry_points.txt")).ok()?;
        let named = entry.file_name().into_string().ok()?;
        let (name, version) = named.strip_suffix(".dist-info")?.rsplit_once('-')?;
        has_program(entries).then(|| format!("{}@{version}", name.replace('_', "-")))
    })
}

/// Reads 1 MiB of a package's file at most. As it is the server's own, it may be a pipe, or have no end.
fn read(path: PathBuf) -> io::Result<String> {
    let mut options = File::options();
    let options = options.read(true).custom_flags(libc::O_NONBLOCK);
    io::read_to_string(options.open(path)?.take(1 << 20))
}
