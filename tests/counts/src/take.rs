//! Takes a path in processes of its own: by itself, under `strace`, under `valgrind`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::budget::Counts;
use crate::cases::{Case, PROGRAMS, SERVER};
use crate::meter::Part;
use crate::trace;

/// What one path has cost.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) counts: Counts,
    pub(crate) held_by: String,
    /// The least and the most of the turns, where they differ.
    pub(crate) spread: BTreeMap<&'static str, (u64, u64)>,
    /// How often a thread of the host went to sleep, at least and at most: differs from run to run.
    pub(crate) waits: Option<(u64, u64)>,
    /// Each system call by its name, of the host and of its helpers, over all turns.
    pub(crate) names: BTreeMap<String, (u64, u64)>,
}

/// The environment that a path has, which is the same everywhere.
pub(crate) struct Stage<'a> {
    /// For the ledger, and the traces.
    pub(crate) directory: &'a Path,
    /// Whether this user may make a PID namespace: what an end looks at is the same on each machine then.
    pub(crate) is_root: bool,
}

impl Stage<'_> {
    pub(crate) fn take(&self, case: &Case) -> Taken {
        let mut taken = Taken::default();
        self.by_itself(case, &mut taken);
        self.traced(case, &mut taken);
        if case.instructions {
            self.instructions(case, &mut taken);
        }
        taken
    }

    /// Allocations, bytes and waits.
    fn by_itself(&self, case: &Case, taken: &mut Taken) {
        let turns = case.turns.to_string();
        let report = self.run(&[], &[case.name, "usual", &turns]);
        for line in report.lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            if name == "held-by" {
                value.clone_into(&mut taken.held_by);
                continue;
            }
            let numbers: Vec<u64> = value.split(' ').map(|it| it.parse().unwrap()).collect();
            match (name, &numbers[..]) {
                ("allocations", [count, spread @ ..]) => taken.note("allocations", *count, spread),
                ("bytes", [count, spread @ ..]) => taken.note("bytes", *count, spread),
                ("waits", [_, least, most]) if case.part == Part::Inside => {
                    taken.waits = Some((*least, *most));
                }
                ("waits", _) => {}
                _ => panic!("not a count: {line}"),
            }
        }
    }

    fn traced(&self, case: &Case, taken: &mut Taken) {
        let file = self.directory.join("trace");
        let turns = case.turns.min(101).to_string();
        let path = file.to_str().unwrap();
        // Long enough for the paths that tell a server from its guardian.
        let strace = [
            "strace",
            "-f",
            "-qq",
            "-s",
            "0",
            "-e",
            "signal=none",
            "-o",
            path,
        ];
        self.run(&strace, &[case.name, "usual", &turns]);
        let text = std::fs::read(&file).unwrap();
        let calls = trace::count(&String::from_utf8_lossy(&text), &format!("/{SERVER}\""));
        let host = case.part.of(calls.host, calls.turns, calls.all);
        if !case.reads_vary {
            taken.note("calls", host, &[calls.host.least, calls.host.most]);
        }
        if calls.helpers > 0 {
            taken.counts.insert("helpers".to_owned(), calls.helpers);
        }
        taken.names = calls.names;
    }

    /// The difference of two runs, per turn: what comes before and after the turns is in both.
    fn instructions(&self, case: &Case, taken: &mut Taken) {
        let (few, many) = (case.turns / 5, case.turns);
        let more = (many - few) as u64;
        let all = self.executed(case, many) - self.executed(case, few);
        taken.counts.insert("instructions".to_owned(), all / more);
    }

    fn executed(&self, case: &Case, turns: usize) -> u64 {
        let log = self.directory.join("valgrind");
        let to = format!("--log-file={}", log.display());
        let valgrind = [
            "valgrind",
            "--tool=cachegrind",
            "--cache-sim=no",
            "--cachegrind-out-file=/dev/null",
            &to,
        ];
        self.run(&valgrind, &[case.name, "plain", &turns.to_string()]);
        let said = std::fs::read_to_string(&log).unwrap();
        let refs = said.lines().find_map(|line| line.split_once("I   refs:"));
        let number = refs.map(|(_, number)| number.trim().replace(',', ""));
        let number = number.and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("valgrind did not count:\n{said}"))
    }

    /// Runs this program with a case, under `tool`; returns what it has said.
    fn run(&self, tool: &[&str], case: &[&str]) -> String {
        let own = std::env::current_exe().unwrap();
        // The first process of the namespace reaps who is given to it, or each end looks at the corpses.
        const NAMESPACE: [&str; 9] = [
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            "\"$@\"; exit",
            "sh",
        ];
        let namespace = if self.is_root { &NAMESPACE[..] } else { &[] };
        let words = namespace.iter().chain(tool).map(OsStr::new);
        let mut words = words.chain([own.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        let state = self.directory.join("state");
        command
            .arg("--inside")
            .args(case)
            // As on every machine, and no longer than needed.
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("MCP_LIFECYCLE_STATE_DIR", state)
            .env(PROGRAMS, std::env::var_os(PROGRAMS).unwrap_or_default())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let done = command.spawn().and_then(|child| child.wait_with_output());
        let done = done.unwrap_or_else(|error| panic!("{command:?}: {}", reason(&error)));
        assert!(done.status.success(), "{command:?}: {}", done.status);
        String::from_utf8(done.stdout).unwrap()
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it is not installed (tests/run counts installs it)".to_owned(),
        _ => error.to_string(),
    }
}

impl Taken {
    /// The least of both, count by count.
    pub(crate) fn least(mut self, other: Self) -> Self {
        for (kind, count) in other.counts {
            let least = self.counts.entry(kind).or_insert(count);
            *least = count.min(*least);
        }
        for (kind, (least, most)) in other.spread {
            let spread = self.spread.entry(kind).or_insert((least, most));
            *spread = (spread.0.min(least), spread.1.max(most));
        }
        self
    }

    fn note(&mut self, kind: &'static str, count: u64, spread: &[u64]) {
        self.counts.insert(kind.to_owned(), count);
        if let [least, most] = *spread
            && least != most
        {
            self.spread.insert(kind, (least, most));
        }
    }
}
