//! Finds the program a command names, the way a shell would, and says why not.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use mcp_lifecycle_core::launch::LaunchErrorKind;

use crate::sys;

/// Where to look when the server's environment has no `PATH`: what a shell
/// without one uses on the systems we know.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The absolute path of `program`.
///
/// A name without a slash is looked up in `path`, the `PATH` that the *server*
/// will see; one with a slash is relative to `cwd`. Resolving it here rather
/// than in `exec` keeps the spawn on `posix_spawn`, and makes the error say
/// what was searched.
pub(crate) fn resolve(
    program: &OsStr,
    path: Option<&OsStr>,
    cwd: &Path,
) -> Result<PathBuf, LaunchErrorKind> {
    if program.as_bytes().contains(&b'/') {
        let path = cwd.join(program);
        return match check(&path) {
            Ok(()) => Ok(path),
            Err(Refusal::Missing) => Err(LaunchErrorKind::NoSuchFile(path)),
            Err(Refusal::Directory) => Err(LaunchErrorKind::IsDirectory(path)),
            Err(Refusal::NotExecutable) => Err(LaunchErrorKind::NotExecutable(path)),
        };
    }
    let searched: Vec<PathBuf> = std::env::split_paths(path.unwrap_or(DEFAULT_PATH.as_ref()))
        // An empty entry and a relative one are relative to the server.
        .map(|dir| cwd.join(dir))
        .collect();
    let mut not_executable = None;
    for dir in &searched {
        let candidate = dir.join(program);
        match check(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(Refusal::NotExecutable) => not_executable = not_executable.or(Some(candidate)),
            Err(Refusal::Missing | Refusal::Directory) => {}
        }
    }
    Err(match not_executable {
        Some(path) => LaunchErrorKind::NotExecutable(path),
        None => LaunchErrorKind::NotFound {
            program: program.to_string_lossy().into_owned(),
            searched,
        },
    })
}

enum Refusal {
    Missing,
    Directory,
    NotExecutable,
}

fn check(path: &Path) -> Result<(), Refusal> {
    let Ok(metadata) = path.metadata() else {
        return Err(Refusal::Missing);
    };
    if metadata.is_dir() {
        return Err(Refusal::Directory);
    }
    if sys::may_execute(path) {
        Ok(())
    } else {
        Err(Refusal::NotExecutable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(program: &str, path: &str) -> Result<PathBuf, LaunchErrorKind> {
        resolve(program.as_ref(), Some(path.as_ref()), Path::new("/"))
    }

    #[test]
    fn a_name_is_looked_up_in_the_servers_path() {
        assert_eq!(
            resolved("sh", "/nowhere:/bin").unwrap(),
            Path::new("/bin/sh")
        );
        assert!(resolve("sh".as_ref(), None, Path::new("/")).is_ok());
    }

    #[test]
    fn what_is_missing_says_where_it_was_looked_for() {
        let error = resolved("no-such-program", "/a:/b")
            .unwrap_err()
            .to_string();
        assert!(error.contains("no-such-program"), "{error}");
        assert!(error.contains("/a:/b"), "{error}");
    }

    #[test]
    fn refusals_are_told_apart() {
        use LaunchErrorKind as E;
        assert!(matches!(
            resolved("/bin", "").unwrap_err(),
            E::IsDirectory(_)
        ));
        assert!(matches!(
            resolved("/etc/passwd", "").unwrap_err(),
            E::NotExecutable(_)
        ));
        assert!(matches!(
            resolved("/no/such", "").unwrap_err(),
            E::NoSuchFile(_)
        ));
        assert!(matches!(
            resolved("passwd", "/etc").unwrap_err(),
            E::NotExecutable(_)
        ));
    }

    #[test]
    fn a_relative_path_is_relative_to_the_server() {
        let path = resolve("./sh".as_ref(), None, Path::new("/bin")).unwrap();
        assert!(path.is_absolute() && path.ends_with("sh"));
    }
}
