//! The acts of servers, and the known facts about each process that they start.

use std::fmt;

use mcp_lifecycle_conformance::random::Random;

/// One misbehaving server.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// The fixture's command line, without the observer.
    pub(crate) args: Vec<String>,
}

/// The mechanisms that hold one process of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// It stays in the server's process group.
    pub(crate) in_group: bool,
    /// It carries the mark of its host, where a reaper of its user can read it.
    pub(crate) marked: bool,
    /// It stays in the server's cgroup, if there is one.
    pub(crate) in_cgroup: bool,
    /// It is the guardian's descendant for as long as it lives.
    pub(crate) in_tree: bool,
    /// It has no main thread: the kernel's own order to kill a cgroup passes it
    /// by (Linux 6.18).
    pub(crate) headless: bool,
}

/// Shapes of the fixture with one misbehaviour each.
const SHAPES: &[&str] = &[
    "plain",
    "ignore-eof",
    "ignore-eof-term",
    "sh-wrapper",
    "leader-exits-first",
    "helper",
    "setsid",
    "double-fork",
    "wiped-env",
    "sigstop",
    "burst --count 40",
    "colony --count 6 --total 60",
    "stderr-flood",
    "stdout-flood",
    "junk-stdout",
    "oversized-line --at handshake --bytes 33554432",
    "never-answers",
    "never-reads-stdin",
    "never-reads-stdin --at handshake",
    "wrong-version",
    "exits-during-handshake",
    "handshake-then-exit",
    "holds-stdout",
    "crash-loop",
];

/// Shapes that no client can start, or not for sure.
const UNSTARTABLE: &[&str] = &[
    "leader-exits-first",
    "oversized-line",
    "never-answers",
    "wrong-version",
    "exits-during-handshake",
    "handshake-then-exit",
    "crash-loop",
    "never-reads-stdin",
];

pub(crate) fn draw(random: &mut Random, unprivileged: bool) -> Server {
    if random.percent(45) {
        return Server::of(&random.pick(SHAPES).split(' ').collect::<Vec<_>>());
    }
    let mut acts: Vec<String> = Vec::new();
    if random.percent(15) {
        acts.push(format!("exec:{}", 1 + random.below(20)));
    }
    if acts.is_empty() && random.percent(15) {
        acts.push("leave-cgroup:0".to_owned());
    }
    for _ in 0..1 + random.below(3) {
        let act = match random.below(if unprivileged { 12 } else { 13 }) {
            0 => "helper".to_owned(),
            1 => "setsid".to_owned(),
            2 => "daemon".to_owned(),
            3 => "wiped".to_owned(),
            4 => format!("burst:{}", 1 + random.below(60)),
            5 => "threads-only".to_owned(),
            6 => "undumpable".to_owned(),
            7 => "own-namespace".to_owned(),
            8 => "enter-namespace:HOLDER".to_owned(),
            9 => "sub-cgroup".to_owned(),
            10 => "no-pdeath".to_owned(),
            11 => format!("zombies:{}", 1 + random.below(100)),
            _ => "other-user".to_owned(),
        };
        if !acts.contains(&act) {
            acts.push(act);
        }
    }
    match random.below(12) {
        0 => acts.push(format!("kill-guardian:{}", random.below(60))),
        1 => acts.push(format!("stop-guardian:{}", random.below(60))),
        2 => acts.push("close-stdout".to_owned()),
        3 => acts.push(format!("crash:{}", random.below(60))),
        _ => {}
    }
    // `exec` starts over: what follows it must come with the last one.
    if acts[0].starts_with("exec") {
        acts.truncate(1);
    }
    let mut args = vec!["acts".to_owned()];
    for act in acts {
        args.extend(["--act".to_owned(), act]);
    }
    for (flag, percent) in [("--ignore-eof", 40), ("--ignore-term", 40)] {
        if random.percent(percent) {
            args.push(flag.to_owned());
        }
    }
    Server { args }
}

impl Server {
    pub(crate) fn of(args: &[&str]) -> Self {
        Self {
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
        }
    }

    fn does(&self, act: &str) -> bool {
        self.args
            .iter()
            .any(|arg| arg.split(':').next() == Some(act))
    }

    pub(crate) fn kills_its_guardian(&self) -> bool {
        self.does("kill-guardian")
    }

    pub(crate) fn stops_its_guardian(&self) -> bool {
        self.does("stop-guardian")
    }

    pub(crate) fn needs_foreign_namespace(&self) -> bool {
        self.does("enter-namespace")
    }

    /// Whether a client that is left alone can start it for sure.
    pub(crate) fn must_start(&self) -> bool {
        let acts = ["close-stdout", "crash", "kill-guardian", "stop-guardian"];
        !acts.iter().any(|act| self.does(act)) && !UNSTARTABLE.contains(&&*self.args[0])
    }

    /// The mechanisms that hold the process of this role; `by_root`: root looks for it.
    pub(crate) fn held(&self, role: &str, by_root: bool) -> Held {
        let in_group = matches!(role, "server" | "wrapper" | "helper" | "holder");
        let marked = match role {
            // The environment is empty.
            "wiped-env" => false,
            "undumpable" | "other-user" => by_root,
            _ => true,
        };
        let entered = self.does("enter-namespace") && matches!(role, "daemon" | "nsenter");
        Held {
            in_group,
            marked,
            in_cgroup: !self.does("leave-cgroup"),
            in_tree: !entered,
            headless: role == "threads-only",
        }
    }

    /// Returns whether it starts a process of this role, of those that carry no mark that
    /// everybody can read.
    pub(crate) fn starts(&self, role: &str) -> bool {
        self.does(role) || (role == "wiped-env" && self.does("wiped"))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.args.join(" "))
    }
}
