//! Turns this process into the shim of a server, by executing the guardian program in another role.

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use crate::image::exec_path;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::execve;

use super::GuardianHandle;
use super::spawn::{IMAGE, number};

#[derive(Debug)]
pub struct Shim<'a> {
    /// The guardian, which has a running server.
    pub guardian: &'a GuardianHandle,
    /// The pidfd of the host.
    pub host: Option<BorrowedFd<'a>>,
    /// `cgroup.kill` of the server's cgroup, open for writing.
    pub cgroup_kill: Option<BorrowedFd<'a>>,
    /// The socket to the companion, which ends what is no descendant of the server.
    pub companion: Option<BorrowedFd<'a>>,
    /// The time between the rungs of its ladder.
    pub grace: Duration,
    /// The time that descendants have after the server's own process, before SIGTERM.
    pub straggler_grace: Duration,
    /// Set if the shim exits with 137 where the server died of SIGKILL, instead of dying of SIGKILL
    /// too.
    pub sigkill_as_code: bool,
    /// Set if the server is in the shim's process group: signals of the terminal reach both, and
    /// neither SIGINT nor the end of the input is a step of its end.
    pub in_foreground: bool,
    /// The display name of the server, which `ps` shows after the shim's own arguments.
    pub name: CString,
    /// The file that its standard error goes to, which `logs` shows.
    pub log: Option<CString>,
    /// Words that `ps` shows after the others.
    pub argv: &'a [CString],
}

/// The index of the companion's socket among the arguments of a shim. Other versions read these arguments: what is
/// before the name keeps its place.
const COMPANION: usize = 7;

const NAME: usize = 9;

/// The prefix of the word with the log.
const LOG: &str = "log=";

/// The placeholder for a missing name or descriptor.
pub const NAMELESS: &str = "-";

/// Returns the display name of the server of a shim with these arguments.
pub fn name_in(words: &[String]) -> Option<String> {
    let (role, name) = (words.get(1)?, words.get(NAME)?);
    (role == "shim" && name != NAMELESS).then(|| name.clone())
}

/// Returns the log of the server of a shim with these arguments.
pub fn log_in(words: &[String]) -> Option<PathBuf> {
    let log = words.get(NAME + 2)?.strip_prefix(LOG)?;
    (words.get(1)? == "shim").then(|| log.into())
}

/// Returns whether a shim with these arguments may wait for a companion: also if its arguments are
/// not known.
pub fn may_have_companion(words: &[String]) -> bool {
    let is_shim = words.get(1).is_some_and(|role| role == "shim");
    words.is_empty() || (is_shim && words.get(COMPANION).is_some_and(|fd| fd != NAMELESS))
}

/// Becomes the shim. All descriptors but the standard streams must close on exec, and all signals
/// must be blocked: one that arrives meanwhile is the shim's. After a failure, this process is
/// unchanged, and the guardian is still the caller's.
pub fn exec(shim: &Shim<'_>) -> io::Result<Infallible> {
    let passed = [
        Some(shim.guardian.control()),
        shim.host,
        shim.cgroup_kill,
        shim.companion,
    ];
    for fd in passed.into_iter().flatten() {
        fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
    }
    let text = |fd: Option<BorrowedFd<'_>>| match fd {
        Some(fd) => number(fd.as_raw_fd().unsigned_abs()),
        None => c"-".to_owned(),
    };
    let time = |time: Duration| number(u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
    let [control, host, cgroup_kill, companion] = passed.map(text);
    let guardian = number(shim.guardian.pid());
    let parameters = [
        c"mcp-contain".to_owned(),
        c"shim".to_owned(),
        control,
        host,
        cgroup_kill,
        time(shim.grace),
        guardian,
        companion,
        number(u32::from(shim.sigkill_as_code) + 2 * u32::from(shim.in_foreground)),
        shim.name.clone(),
        time(shim.straggler_grace),
    ];
    const { assert!(NAME == 9 && COMPANION == 7) };
    let log = shim
        .log
        .as_ref()
        .map(|log| [LOG.as_bytes(), log.to_bytes()].concat());
    let log = log.map(CString::new).transpose()?;
    let argv: Vec<&CStr> = parameters
        .iter()
        .chain(&log)
        .chain(shim.argv)
        .map(CString::as_c_str)
        .collect();
    const NO_ENVIRONMENT: [&CStr; 0] = [];
    IMAGE.run(|program| Ok(execve(&exec_path(program)?, &argv, &NO_ENVIRONMENT)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shim_of_an_older_version_is_named() {
        let words = "mcp-contain shim 9 4 8 2000 1335 - 0 memory ./server -v";
        let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
        assert_eq!(name_in(&words).as_deref(), Some("memory"));
    }

    #[test]
    fn a_log_is_a_word_between_the_times_and_the_program() {
        let log = |text: &str| {
            let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
            log_in(&words)
        };
        let words = "mcp-contain shim 9 4 8 2000 1335 - 0 memory 50 log=/tmp/a=b ./server";
        assert_eq!(log(words), Some("/tmp/a=b".into()));
        assert_eq!(log(&words.replace("log=/tmp/a=b ", "")), None);
        assert_eq!(log(&words.replace("shim", "guardian")), None);
        let older = "mcp-contain shim 9 4 8 2000 1335 - 0 memory 50";
        assert_eq!(log(older), None);
    }

    #[test]
    fn who_does_not_say_whether_it_has_a_companion_may_have_one() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        assert!(may_have_companion(&[]));
        assert!(may_have_companion(&words(
            "mcp-contain shim 3 4 - 2000 77 5 0 name"
        )));
        assert!(!may_have_companion(&words(
            "mcp-contain shim 3 4 - 2000 77 - 0 name"
        )));
        assert!(!may_have_companion(&words(
            "mcp-contain guardian 3 4 - 2000 77 5 0 name"
        )));
    }
}
