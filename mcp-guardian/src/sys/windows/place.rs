//! Finds programs, and tells which files can be started.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::windows::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use windows_sys::Win32::Foundation::{
    ERROR_COMMITMENT_LIMIT, ERROR_NO_SYSTEM_RESOURCES, ERROR_NOT_ENOUGH_MEMORY,
    ERROR_NOT_ENOUGH_QUOTA, ERROR_OUTOFMEMORY, ERROR_TOO_MANY_OPEN_FILES,
};
use windows_sys::Win32::System::SystemInformation::GetSystemDirectoryW;

/// The search path where the server's environment has no `PATH`: the system's directories.
pub const DEFAULT_PATH: &str = r"C:\Windows\System32;C:\Windows";

const DEFAULT_EXTENSIONS: &str = ".COM;.EXE;.BAT;.CMD";

/// The extensions of files that can be started; others of `PATHEXT` need another program.
const STARTED: [&str; 4] = ["com", "exe", "bat", "cmd"];

pub fn names_a_path(program: &OsStr) -> bool {
    program
        .as_encoded_bytes()
        .iter()
        .any(|byte| b"/\\:".contains(byte))
}

/// Returns the files that a name may mean. `npx` is `npx.cmd`, never the `npx` beside it.
pub fn spellings(path: &Path, env: &BTreeMap<OsString, OsString>) -> Vec<PathBuf> {
    let mut spellings = Vec::new();
    if is_started(path) {
        spellings.push(path.to_owned());
    }
    let extensions = variable(env, "PATHEXT").unwrap_or(DEFAULT_EXTENSIONS.as_ref());
    let extensions = extensions.to_string_lossy();
    for extension in extensions
        .split(';')
        .filter(|extension| !extension.is_empty())
    {
        let mut spelling = path.as_os_str().to_owned();
        spelling.push(extension);
        let spelling = PathBuf::from(spelling);
        if is_started(&spelling) {
            spellings.push(spelling);
        }
    }
    spellings
}

pub fn may_execute(path: &Path) -> bool {
    is_started(path)
}

fn is_started(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    STARTED
        .iter()
        .any(|known| extension.eq_ignore_ascii_case(known))
}

/// Returns a variable of an environment, in which names ignore case.
pub fn variable<'a>(env: &'a BTreeMap<OsString, OsString>, name: &str) -> Option<&'a OsStr> {
    let mut found = env.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.as_os_str())
}

/// Returns the program that runs scripts: the system's, not one of a search path.
pub fn command_interpreter() -> io::Result<PathBuf> {
    let mut path = [0_u16; 260];
    // SAFETY: there is room for the given number of units.
    let length = unsafe { GetSystemDirectoryW(path.as_mut_ptr(), path.len() as u32) };
    match path.get(..length as usize) {
        Some(path) if length > 0 => Ok(PathBuf::from(OsString::from_wide(path)).join("cmd.exe")),
        _ => Err(io::Error::last_os_error()),
    }
}

pub fn limit_of(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()?.cast_unsigned() {
        ERROR_TOO_MANY_OPEN_FILES | ERROR_NO_SYSTEM_RESOURCES | ERROR_NOT_ENOUGH_QUOTA => {
            Some("handles, or a quota of this user")
        }
        ERROR_NOT_ENOUGH_MEMORY | ERROR_OUTOFMEMORY | ERROR_COMMITMENT_LIMIT => Some("memory"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_what_pathext_says_and_no_script_of_another_system() {
        let env = BTreeMap::from([("PathExt".into(), ".EXE;.CMD;.JS;;.py".into())]);
        let spelled = |name: &str| spellings(Path::new(name), &env);
        assert_eq!(
            spelled(r"C:\npx"),
            [Path::new(r"C:\npx.EXE"), Path::new(r"C:\npx.CMD")]
        );
        assert_eq!(spelled("a.cmd")[0], Path::new("a.cmd"));
        assert_eq!(spelled("python3.11")[0], Path::new("python3.11.EXE"));
        let none = spellings(Path::new("npx"), &BTreeMap::new());
        assert_eq!(none.len(), 4);
    }
}
