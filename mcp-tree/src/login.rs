//! The `PATH` of the user's terminals, for programs that were started from a desktop.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::{User, geteuid};

use crate::sys::{self, Pid};

const TEXT_MAX: usize = 1 << 20;

/// Returns the `PATH` of the user's login shell, as a new terminal has it. Blocks, for `limit` at
/// most.
///
/// The shell is that of the variable `SHELL`, or else this user's of the system. It reads the files
/// of an interactive login shell, in a session of its own, without a terminal and with an empty
/// input. It and its process group are killed afterwards; processes that its files start in other
/// groups are left. Where this process ignores SIGCHLD, the group of a shell that has ended is left
/// as well.
///
/// SIGTERM, SIGINT, SIGHUP and SIGQUIT are blocked in this thread meanwhile, and end the wait. If
/// this process is killed meanwhile, the kernel kills the shell.
///
/// # Errors
///
/// There is no such shell, it gives no answer in time, or one of these signals has arrived.
pub fn login_path(limit: Duration) -> io::Result<OsString> {
    let end = sys::deadline(limit);
    let shell = shell()?;
    let mark = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
    let mark = format!("mcp-{mark:016x}");
    // Uses programs that every shell calls in the same way, and that no alias hides.
    let line = format!("printf '%s' {mark}; /usr/bin/env -0; printf '%s' {mark}");
    let mut command = Command::new(&shell);
    command
        .args([options_of(&shell), &line])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    // With a terminal, the shell would wait to be in its foreground.
    let held = sys::HeldSignals::new()?;
    sys::in_a_session(&mut command, held.before);
    let said = |what: String| io::Error::other(format!("{}: {what}", shell.display()));
    let mut child = command.spawn().map_err(|error| said(error.to_string()))?;
    let answer = listen(&mut child, &held, mark.as_bytes(), end);
    let is_killed = Pid::new(child.id().into()).is_some_and(sys::kill_group_of_child);
    let _ = match is_killed {
        true => child.wait().map(Some),
        // It is reaped elsewhere: by the kernel, where SIGCHLD is ignored.
        false => child.try_wait(),
    };
    match answer {
        Ok(path) => path.ok_or_else(|| said("it has ended without saying its PATH".to_owned())),
        Err(error) => Err(said(error.to_string())),
    }
}

fn shell() -> io::Result<PathBuf> {
    let named = env::var_os("SHELL").map(PathBuf::from);
    if let Some(named) = named.filter(|shell| shell.is_absolute()) {
        return Ok(named);
    }
    let user = User::from_uid(geteuid())?;
    let shell = user.map(|user| user.shell);
    shell
        .filter(|shell| shell.is_absolute())
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "this user has no login shell"))
}

/// Returns the options of an interactive login shell. The C family allows none beside `-l`.
fn options_of(shell: &Path) -> &'static str {
    match shell.file_name().and_then(OsStr::to_str) {
        Some("csh" | "tcsh") => "-ic",
        _ => "-ilc",
    }
}

/// Returns the `PATH` in its output, as soon as that is complete; `None` if the output ends before.
fn listen(
    child: &mut Child,
    held: &sys::HeldSignals,
    mark: &[u8],
    end: Instant,
) -> io::Result<Option<OsString>> {
    let Some(mut output) = child.stdout.take() else {
        return Ok(None);
    };
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if !held.readable_within(output.as_fd(), left)? {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "it has not said its PATH in time",
            ));
        }
        let len = match output.read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        text.extend_from_slice(&buffer[..len]);
        if let Some(path) = path_in(&text, mark) {
            return Ok(path);
        }
        if text.len() > TEXT_MAX {
            return Ok(None);
        }
    }
}

/// Returns the variable in an environment between two marks; `None` before the second mark.
fn path_in(text: &[u8], mark: &[u8]) -> Option<Option<OsString>> {
    let find = |text: &[u8]| text.windows(mark.len()).position(|part| part == mark);
    let text = &text[find(text)? + mark.len()..];
    let text = &text[..find(text)?];
    let mut variables = text.split(|&byte| byte == 0);
    let path = variables.find_map(|variable| variable.strip_prefix(b"PATH="));
    Some(
        path.filter(|path| !path.is_empty())
            .map(|path| OsString::from_vec(path.to_vec())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_the_marks_counts() {
        let path =
            |text: &[u8]| path_in(text, b"<>").map(|it| it.map(|it| it.into_string().unwrap()));
        assert_eq!(path(b"PATH=/no\0<>A=1\nPATH=/no\0PATH=/a:/b\0"), None);
        let whole = b"hello\nPATH=/no\0<>A=1\nPATH=/no\0PATH=/a:/b\0B=2\0<>PATH=/no";
        assert_eq!(path(whole), Some(Some("/a:/b".to_owned())));
        assert_eq!(path(b"<>A=1\0<>"), Some(None));
        assert_eq!(path(b"<>PATH=\0<>"), Some(None));
    }

    #[test]
    fn what_a_shell_reads_is_known_by_its_name() {
        assert_eq!(options_of(Path::new("/bin/tcsh")), "-ic");
        assert_eq!(options_of(Path::new("/usr/bin/fish")), "-ilc");
    }
}
