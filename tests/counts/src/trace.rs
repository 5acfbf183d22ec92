//! Reads what `strace -f -o FILE` has written. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::meter::{BEGIN, END, FIRST, LAST, Spread};

/// System calls in which a thread waits, or wakes another one: how many there are depends on who comes first. One is
/// the meter's own.
const WAITS: &[&str] = &[
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "futex",
    "getrusage",
    "poll",
    "ppoll",
    "restart_syscall",
    "sched_yield",
];

/// How the names of the marks begin.
const MARK: &str = "\"/counts/";

/// What was counted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Calls {
    /// Of the host in one turn.
    pub(crate) host: Spread,
    pub(crate) turns: usize,
    /// Of the host, from the first turn to the last.
    pub(crate) all: u64,
    /// Of all that it has started and that is no server, from the first turn to the last, per turn.
    pub(crate) helpers: u64,
    /// Each name, from the first turn to the last: of the host, and of the helpers.
    pub(crate) names: BTreeMap<String, (u64, u64)>,
}

/// Whose call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Host,
    Helper,
    Server,
}

/// Counts the calls of a trace; `server` is how the path of a server's program ends.
pub(crate) fn count(trace: &str, server: &str) -> Calls {
    let lines = || trace.lines().filter_map(Line::read);
    let parents = parents(lines());
    let mut who = HashMap::<u32, Who>::new();
    let mut turns = Vec::new();
    let mut turn = None;
    let mut is_measured = false;
    let (mut all, mut helpers) = (0, 0);
    let empty = empty(lines());
    let mut names = BTreeMap::<String, (u64, u64)>::new();
    for (number, line) in lines().enumerate() {
        let of = whose(line.pid, &parents, &mut who);
        let Some(name) = line.name else { continue };
        if name == "execve" && of == Who::Helper && line.text.contains(server) {
            // From here on. This call is still its guardian's work.
            who.insert(line.pid, Who::Server);
        }
        if of == Who::Host && line.text.contains(MARK) {
            match () {
                () if line.text.contains(BEGIN) => turn = Some(0),
                () if line.text.contains(END) => turns.extend(turn.take()),
                () if line.text.contains(FIRST) => is_measured = true,
                () if line.text.contains(LAST) => is_measured = false,
                () => {}
            }
            continue;
        }
        if WAITS.contains(&name) || empty.contains(&number) || line.is_wake() || !is_measured {
            continue;
        }
        match of {
            Who::Host => {
                turn.iter_mut().for_each(|turn| *turn += 1);
                all += 1;
                names.entry(name.to_owned()).or_default().0 += 1;
            }
            Who::Helper => {
                helpers += 1;
                names.entry(name.to_owned()).or_default().1 += 1;
            }
            Who::Server => {}
        }
    }
    let number = turns.len().max(1) as u64;
    Calls {
        turns: turns.len(),
        all,
        host: Spread::of(turns),
        helpers: (helpers + number / 2) / number,
        names,
    }
}

/// The numbers of the lines in which a call begins that finds nothing to read (EAGAIN): whoever looks a moment later finds it.
fn empty<'t>(lines: impl Iterator<Item = Line<'t>>) -> HashSet<usize> {
    let mut empty = HashSet::new();
    let mut begun = HashMap::new();
    for (number, line) in lines.enumerate() {
        if line.name.is_some() {
            begun.insert(line.pid, number);
        }
        if line.text.contains(" = -1 EAGAIN")
            && let Some(begun) = begun.get(&line.pid)
        {
            empty.insert(*begun);
        }
    }
    empty
}

/// Who `pid` is: the first of a trace is the host, a thread is who its process is.
fn whose(pid: u32, parents: &HashMap<u32, Parent>, who: &mut HashMap<u32, Who>) -> Who {
    if let Some(known) = who.get(&pid) {
        return *known;
    }
    let is = match parents.get(&pid) {
        None => Who::Host,
        Some(parent) => match (whose(parent.pid, parents, who), parent.is_thread) {
            (own, true) => own,
            // Until it is executed, the process of a server is its guardian's work.
            (_, false) => Who::Helper,
        },
    };
    who.insert(pid, is);
    is
}

#[derive(Debug, Clone, Copy)]
struct Parent {
    pid: u32,
    is_thread: bool,
}

/// Who has made each thread and process.
fn parents<'t>(lines: impl Iterator<Item = Line<'t>>) -> HashMap<u32, Parent> {
    const MAKERS: [&str; 4] = ["clone", "clone3", "fork", "vfork"];
    let mut parents = HashMap::new();
    // What a call that another line has interrupted was to make.
    let mut begun = HashMap::new();
    for line in lines {
        let is_thread = match line.name {
            Some(name) if MAKERS.contains(&name) => line.text.contains("CLONE_THREAD"),
            Some(_) => continue,
            None if MAKERS
                .iter()
                .any(|it| line.text.starts_with(&format!("<... {it} resumed>"))) =>
            {
                begun.remove(&line.pid).unwrap_or(false)
            }
            None => continue,
        };
        if line.text.ends_with("<unfinished ...>") {
            begun.insert(line.pid, is_thread);
        } else if let Some(made) = line.result().and_then(|made| made.parse().ok()) {
            let pid = line.pid;
            parents.insert(made, Parent { pid, is_thread });
        }
    }
    parents
}

#[derive(Debug, Clone, Copy)]
struct Line<'t> {
    pid: u32,
    /// The call that begins here.
    name: Option<&'t str>,
    text: &'t str,
}

impl<'t> Line<'t> {
    fn read(line: &'t str) -> Option<Self> {
        let (pid, text) = line.split_once(' ')?;
        let text = text.trim_start();
        let name = text.split_once('(').map(|(name, _)| name);
        let is_name = |name: &&str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|it| it.is_ascii_alphanumeric() || it == b'_')
        };
        Some(Self {
            pid: pid.parse().ok()?,
            name: name.filter(is_name),
            text,
        })
    }

    /// Whether it wakes a runtime: eight bytes into an eventfd. One that is awake is not woken.
    fn is_wake(&self) -> bool {
        self.name == Some("write") && self.text.contains(", \"\"..., 8")
    }

    /// What the call has returned.
    fn result(&self) -> Option<&'t str> {
        let (_, result) = self.text.rsplit_once(" = ")?;
        result.split(' ').next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = r#"10 statx(AT_FDCWD, "/counts/first", 0) = -1 ENOENT (No such file)
10 clone3({flags=CLONE_VM|CLONE_THREAD}, 88) = 11
10 statx(AT_FDCWD, "/counts/begin", 0) = -1 ENOENT (No such file)
11 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_VFORK <unfinished ...>
12    setsid()                          = 12
12 execve("/proc/self/fd/7", ["a(b) = c"], 0x7f /* 1 var */ <unfinished ...>
11 <... clone resumed>)             = 12
12 <... execve resumed>) = 0
12 fork() = 13
13 dup3(3, 0, 0) = 0
13 execve("/target/mcp-echo", ["mcp-echo"], 0x7f /* 1 var */) = 0
13 read(0, "", 10) = 0
10 futex(0x7f, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>
11 write(3, "x", 1) = 1
10 <... futex resumed>) = 0
10 write(5, ""..., 8) = 8
10 read(6,  <unfinished ...>
11 close(7) = 0
10 <... read resumed>"", 64) = -1 EAGAIN (Resource temporarily unavailable)
10 statx(AT_FDCWD, "/counts/end", 0) = -1 ENOENT (No such file)
10 close(3) = 0
12 exit_group(0) = ?
12 +++ exited with 0 +++
10 statx(AT_FDCWD, "/counts/last", 0) = -1 ENOENT (No such file)
"#;

    #[test]
    fn each_call_is_counted_once_and_for_whoever_made_it() {
        let calls = count(TRACE, "/mcp-echo\"");
        // The clone and the write.
        // The clone, the write and the close.
        assert_eq!(calls.host.median, 3);
        // With the start of the thread and the close after the turn.
        assert_eq!((calls.turns, calls.all), (1, 5));
        // setsid, execve, fork, dup3, execve and exit_group.
        assert_eq!(calls.helpers, 6, "{:?}", calls.names);
        assert_eq!(calls.names["execve"], (0, 2));
        assert!(!calls.names.contains_key("read"));
        assert!(!calls.names.contains_key("futex"));
    }
}
