//! Finds the program of a command as a shell would, and explains a failure.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use mcp_lifecycle_core::launch::LaunchErrorKind;

use crate::sys;

/// Returns the absolute path of `program`.
///
/// A name is looked up in the `PATH` of `env`, the environment that the *server* will see; a path
/// is relative to `cwd`. The error names the searched directories.
pub fn resolve(
    program: &OsStr,
    env: &BTreeMap<OsString, OsString>,
    cwd: &Path,
) -> Result<PathBuf, LaunchErrorKind> {
    if sys::names_a_path(program) {
        let path = cwd.join(program);
        return match find(&path, env) {
            Ok(found) => Ok(found),
            Err(Refusal::Missing) => Err(LaunchErrorKind::NoSuchFile(path)),
            Err(Refusal::Directory) => Err(LaunchErrorKind::IsDirectory(path)),
            Err(Refusal::NotExecutable) => Err(LaunchErrorKind::NotExecutable(path)),
        };
    }
    let path = sys::variable(env, "PATH").unwrap_or(sys::DEFAULT_PATH.as_ref());
    let searched: Vec<PathBuf> = std::env::split_paths(path)
        .map(|dir| cwd.join(dir))
        .collect();
    let mut not_executable = None;
    for dir in &searched {
        let candidate = dir.join(program);
        match find(&candidate, env) {
            Ok(found) => return Ok(found),
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

fn find(path: &Path, env: &BTreeMap<OsString, OsString>) -> Result<PathBuf, Refusal> {
    let mut refused = None;
    for spelling in sys::spellings(path, env).into_iter() {
        match check(&spelling) {
            Ok(()) => return Ok(spelling),
            Err(refusal) if spelling == path => refused = Some(refusal),
            Err(_) => {}
        }
    }
    match refused {
        // Already checked: each look delays a start.
        Some(refusal) => Err(refusal),
        None => check(path).map(|()| path.to_owned()),
    }
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn resolved(program: &str, path: &str) -> Result<PathBuf, LaunchErrorKind> {
        let env = BTreeMap::from([("PATH".into(), path.into())]);
        resolve(program.as_ref(), &env, Path::new("/"))
    }

    #[test]
    fn a_name_is_looked_up_in_the_servers_path() {
        assert_eq!(
            resolved("sh", "/nowhere:/bin").unwrap(),
            Path::new("/bin/sh")
        );
        assert!(resolve("sh".as_ref(), &BTreeMap::new(), Path::new("/")).is_ok());
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
        let path = resolve("./sh".as_ref(), &BTreeMap::new(), Path::new("/bin")).unwrap();
        assert!(path.is_absolute() && path.ends_with("sh"));
    }
}
