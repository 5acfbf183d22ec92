//! A pipe watcher: ends process groups when this host dies, on systems that have nothing better.
//!
//! ```text
//!  host ── "+ 42", "- 42" ──▶ /bin/sh: a list of groups
//!   ✗ ───── end of file ────▶ kill -KILL each group still in the list
//! ```
//!
//! One shell serves all servers of a host, in a group of its own, so that the terminal's signals do
//! not reach it. Best effort: it misses a server if the host is killed between the spawn and the
//! line, and processes that have left their group; a child that the host forked without executing a
//! program holds the pipe open; a shell that was killed is replaced when the next server starts.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Pid;

const WATCHER: &str = r#"
trap '' HUP INT QUIT TERM
groups=' '
while read -r what group; do
    case "$what$groups" in
    +*) groups="$groups$group " ;;
    -*" $group "*) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"#;

/// The last argument of the watcher, by which it is recognized.
pub const NAME: &str = "mcp-lifeline";

/// A process group that does not outlive this host.
///
/// # Drop
///
/// Removes the group from the list. Must be dropped before its leader is reaped: until then the pid
/// cannot be reused.
#[derive(Debug)]
pub(super) struct Lifeline {
    group: Pid,
}

static THIS_HOST: Mutex<Option<Watcher>> = Mutex::new(None);

impl Lifeline {
    pub(super) fn tie(group: Pid) -> io::Result<Self> {
        let mut watcher = this_host();
        if let Some(running) = &mut *watcher
            && running.tie(group).is_ok()
        {
            return Ok(Self { group });
        }
        // This is the first server, or the shell was killed.
        let tied = watcher.take().map(Watcher::replaced).unwrap_or_default();
        let fresh = watcher.insert(Watcher::start()?);
        for known in tied.into_iter().chain([group]) {
            fresh.tie(known)?;
        }
        Ok(Self { group })
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        if let Some(watcher) = &mut *this_host()
            && let Err(error) = watcher.untie(self.group)
        {
            crate::logged!(debug, %error, "the watcher of this host has gone");
        }
    }
}

fn this_host() -> MutexGuard<'static, Option<Watcher>> {
    THIS_HOST.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Watcher {
    shell: Child,
    /// The shell waits for its end of file.
    input: ChildStdin,
    tied: BTreeSet<Pid>,
}

impl Watcher {
    fn start() -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", WATCHER, NAME])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let Some(input) = shell.stdin.take() else {
            unreachable!("it is piped")
        };
        Ok(Self {
            shell,
            input,
            tied: BTreeSet::new(),
        })
    }

    fn tie(&mut self, group: Pid) -> io::Result<()> {
        self.tell('+', group)?;
        self.tied.insert(group);
        Ok(())
    }

    fn untie(&mut self, group: Pid) -> io::Result<()> {
        self.tied.remove(&group);
        self.tell('-', group)
    }

    /// Sends a few bytes in one write: they arrive whole or not at all.
    fn tell(&mut self, what: char, group: Pid) -> io::Result<()> {
        let line = format!("{what} {}\n", group.as_u32());
        self.input.write_all(line.as_bytes())
    }

    fn replaced(mut self) -> BTreeSet<Pid> {
        // If it lives, it must not take the end of its input for the host's.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        self.tied
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::sync::mpsc;
    use std::time::Duration;

    /// A process group, and the end of a pipe that its processes hold open.
    struct Group {
        leader: Child,
        alive: io::PipeReader,
    }

    fn group() -> Group {
        let (alive, held) = io::pipe().unwrap();
        let leader = Command::new("/bin/sh")
            .args(["-c", "sleep 1000 & wait"])
            .stdin(Stdio::null())
            .stdout(held)
            .process_group(0)
            .spawn()
            .unwrap();
        Group { leader, alive }
    }

    impl Group {
        fn pid(&self) -> Pid {
            Pid::new(self.leader.id().into()).unwrap()
        }

        /// Returns whether all members end within `limit`, by the end of file.
        fn is_dead_within(&mut self, limit: Duration) -> bool {
            let mut alive = self.alive.try_clone().unwrap();
            let (said, heard) = mpsc::channel();
            std::thread::spawn(move || {
                let _ = alive.read(&mut [0]);
                let _ = said.send(());
            });
            heard.recv_timeout(limit).is_ok()
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            // Not reaped yet, so the pid is not reused.
            let _ = nix::sys::signal::killpg(self.pid().raw(), nix::sys::signal::SIGKILL);
            let _ = self.leader.wait();
        }
    }

    /// Closes the pipe, as the kernel does when the host dies, and waits for the shell.
    fn host_dies(mut watcher: Watcher) {
        drop(watcher.input);
        watcher.shell.wait().unwrap();
    }

    #[test]
    fn groups_on_the_list_end_with_the_host_and_no_other() {
        let [mut first, mut struck_off, mut last, mut stranger] =
            [group(), group(), group(), group()];
        let mut watcher = Watcher::start().unwrap();
        for tied in [&first, &struck_off, &last] {
            watcher.tie(tied.pid()).unwrap();
        }
        watcher.untie(struck_off.pid()).unwrap();
        // A second removal, and that of an unknown group, do no harm.
        watcher.untie(struck_off.pid()).unwrap();
        watcher.untie(stranger.pid()).unwrap();
        host_dies(watcher);
        let limit = Duration::from_secs(10);
        assert!(first.is_dead_within(limit));
        assert!(last.is_dead_within(limit));
        // The shell has ended, so it kills no more groups.
        assert!(!struck_off.is_dead_within(Duration::ZERO));
        assert!(!stranger.is_dead_within(Duration::ZERO));
    }

    #[test]
    fn a_killed_watcher_is_replaced_with_its_list() {
        let [mut before, mut after] = [group(), group()];
        let first = Lifeline::tie(before.pid()).unwrap();
        {
            let mut watcher = this_host();
            let shell = &mut watcher.as_mut().unwrap().shell;
            shell.kill().unwrap();
            shell.wait().unwrap();
        }
        let second = Lifeline::tie(after.pid()).unwrap();
        let watcher = this_host().take().unwrap();
        assert_eq!(watcher.tied, BTreeSet::from([before.pid(), after.pid()]));
        host_dies(watcher);
        let limit = Duration::from_secs(10);
        assert!(before.is_dead_within(limit) && after.is_dead_within(limit));
        drop((first, second));
    }
}
