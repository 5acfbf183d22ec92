//! The host's checks of the patterns of processes to keep.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use mcp_lifecycle_core::launch::LaunchErrorKind;

use super::{Require, Wrapper};
use crate::keep::{PATTERNS_MAX, is_meant};

impl Wrapper {
    /// Returns all patterns, as the guardian and the environment have them.
    pub(super) fn patterns(&self) -> OsString {
        self.keep.join(OsStr::new("\n"))
    }
}

pub(super) fn check(wrapper: &Wrapper) -> Result<(), LaunchErrorKind> {
    let refused = |why: &str| {
        let what = "the processes that are to stay cannot be told";
        Err(LaunchErrorKind::backend(what, why.to_owned()))
    };
    let is_odd = |pattern: &OsString| pattern.is_empty() || pattern.as_bytes().contains(&b'\n');
    if wrapper.keep.iter().any(is_odd) {
        return refused("a pattern is empty, or has a line feed in it");
    }
    if wrapper.patterns().len() >= PATTERNS_MAX {
        return refused("the patterns have more than 255 bytes");
    }
    if !wrapper.keep.is_empty() && wrapper.require == Require::PidNamespace {
        return refused("nobody leaves a PID namespace of the server's own, which ends with it");
    }
    if !wrapper.keep.is_empty() && !wrapper.limits.is_none() {
        return refused("there is no place for them beside a cgroup with a limit");
    }
    let words = std::iter::once(&wrapper.program).chain(&wrapper.args);
    let words: Vec<&[u8]> = words.map(|word| word.as_bytes()).collect();
    let program = words.first().copied().unwrap_or_default();
    let base = program
        .rsplit(|&byte| byte == b'/')
        .next()
        .unwrap_or_default();
    let command = words.join(&0);
    let itself = wrapper
        .keep
        .iter()
        .find(|pattern| is_meant(pattern.as_bytes(), base, &command));
    match itself {
        Some(pattern) => refused(&format!("{} means the server itself", pattern.display())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(keep: &[&str], command: &[&str]) -> Option<String> {
        let args = command[1..].iter().map(OsString::from);
        let mut wrapper = Wrapper::new(command[0], args);
        wrapper.keep = keep.iter().map(OsString::from).collect();
        let error = check(&wrapper).err()?;
        let error = mcp_lifecycle_core::launch::ErrorChain(&error);
        Some(error.to_string())
    }

    #[test]
    fn what_means_the_server_itself_is_refused_and_its_arguments_do_not_count() {
        let said = |keep, command: &[&str]| {
            checked(&[keep], command).is_some_and(|it| it.contains("itself"))
        };
        assert!(said("node", &["/usr/bin/node", "x"]));
        assert!(said("*", &["npx"]));
        assert!(said("*/node *", &["/usr/bin/node", "x"]));
        assert!(!said(
            "chrome",
            &["npx", "@playwright/mcp", "--browser", "chrome"]
        ));
        assert!(!said("*/adb *", &["npx", "-y", "adb-mcp"]));
    }

    #[test]
    fn a_name_is_that_of_the_process_or_of_its_program_and_a_slash_means_the_whole_line() {
        let meant = |pattern: &str, name: &str, command: &str| {
            let command = command.replace(' ', "\0") + "\0";
            is_meant(
                pattern.as_bytes(),
                format!("{name}\0\0").as_bytes(),
                command.as_bytes(),
            )
        };
        assert!(meant("adb", "adb", "adb -L tcp:5037 fork-server server"));
        assert!(meant("chrom*", "x", "/opt/chromium --type=renderer"));
        assert!(meant("nobody\n?d?", "adb", ""));
        assert!(meant(
            "*/java *GradleDaemon*",
            "java",
            "/usr/bin/java -cp x org.GradleDaemon 8"
        ));
        assert!(meant("*/a*b*c", "x", "/a bb b c"));
        assert!(!meant("adb", "sh", "sh -c adb"));
        assert!(!meant("GradleDaemon", "java", "/usr/bin/java GradleDaemon"));
        assert!(!meant("adb?", "adb", "adb"));
        assert!(!meant("", "", ""));
        assert!(!meant("*/a*b", "x", "/a b c"));
    }

    #[test]
    fn what_cannot_be_written_down_is_refused() {
        assert_eq!(checked(&["adb", "gradle*"], &["npx"]), None);
        assert_eq!(checked(&[], &["npx"]), None);
        assert!(checked(&["adb", ""], &["npx"]).is_some());
        assert!(checked(&["a\nb"], &["npx"]).is_some());
        assert!(checked(&[&"x".repeat(300)], &["npx"]).is_some());
        let mut boxed = Wrapper::new("npx", []);
        boxed.keep = vec!["adb".into()];
        boxed.require = Require::PidNamespace;
        assert!(check(&boxed).is_err());
        boxed.require = Require::Nothing;
        boxed.limits.memory = Some(1 << 30);
        assert!(check(&boxed).is_err());
    }
}
