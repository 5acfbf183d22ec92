//! The program that is executed again: this one, if it has said that it may be.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{self, Path, PathBuf};
use std::sync::OnceLock;

/// The file of a program, as it was when it was started.
#[derive(Debug)]
struct Program {
    path: PathBuf,
    file: File,
}

/// What tells two files apart.
#[derive(Debug, PartialEq, Eq)]
struct File {
    device: u64,
    number: u64,
    changed: (i64, i64),
}

static PROGRAM: OnceLock<Option<Program>> = OnceLock::new();

/// Takes note of this program: it may be executed again.
pub(super) fn remember() {
    PROGRAM.get_or_init(|| {
        let path = path::absolute(env::current_exe().ok()?).ok()?;
        let file = file(&path)?;
        Some(Program { path, file })
    });
}

/// The path of this program.
///
/// # Errors
///
/// It may not be executed again: another one, put into its place by an update, would not be a guardian, but a second host.
pub(super) fn again() -> Result<&'static Path, &'static str> {
    match PROGRAM.get() {
        None => Err("this program has not called `serve_as_guardian`"),
        Some(None) => Err("the file of this program is not known"),
        Some(Some(program)) if file(&program.path).as_ref() == Some(&program.file) => {
            Ok(&program.path)
        }
        Some(Some(_)) => Err("the file of this program has changed since it was started"),
    }
}

fn file(path: &Path) -> Option<File> {
    let found = fs::metadata(path).ok()?;
    Some(File {
        device: found.dev(),
        number: found.ino(),
        changed: (found.mtime(), found.mtime_nsec()),
    })
}
