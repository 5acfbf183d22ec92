//! `doctor`: lists what is left behind and how to end it, the machine's containment, and wrapped
//! hosts.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use mcp_guardian::{cgroup, hardened, state};
use mcp_lifecycle_core::launch::{Containment, Reach};
use mcp_tree::Limits;
use mcp_tree::inventory::{KnownServer, Unclaimed};
use serde_json::{Value, json};

use super::left::{Left, line, texts, unless};
use super::{foreign, ps};
use crate::failure::Failure;
use crate::show::text::one_line;
use crate::show::{out, units, unknown};
use crate::wrap::survey::{Survey, survey};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Also show how servers are contained on this machine, and what counts as left behind
    #[arg(long, short)]
    verbose: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Changes nothing, except that ledgers of an earlier boot are removed as always.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let leak = Leak::look()?;
    let [no_memory, no_pids, no_cpus] = limits().map(|limits| {
        let refused = cgroup::parent_with(&limits).err();
        refused.map(|why| format!("{why}{}", elsewhere(env::var_os("XDG_RUNTIME_DIR"))))
    });
    let machine = Machine {
        containment: mcp_tree::containment(),
        refused: [
            ("--memory", "no_memory_limit", no_memory),
            ("--pids", "no_pids_limit", no_pids),
            ("--cpus", "no_cpus_limit", no_cpus),
            ("--hardened", "no_hardening", hardened::refusal(true, false)),
            ("--write", "no_write_limit", hardened::refusal(false, true)),
        ],
        no_record: state::refusal(),
        sandboxes: sandboxes(),
    };
    let files = survey();
    match options.json {
        true => out::json(&as_json(&leak, &machine, &files)),
        false => {
            let lines = text(&leak, &machine, &files, options.verbose);
            lines.iter().for_each(|line| out::line(one_line(line)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

struct Leak {
    left: Left,
    /// Orphans that look like servers but are on no record.
    unclaimed: Vec<(String, Unclaimed)>,
}

impl Leak {
    fn look() -> Result<Self, Failure> {
        Ok(Self {
            left: Left::look()?,
            unclaimed: foreign::look()?,
        })
    }

    fn memory(&self) -> u64 {
        let unclaimed = self.unclaimed.iter().map(|(_, it)| foreign::memory(it));
        let orphans = self.left.orphans.iter().map(KnownServer::memory);
        orphans.chain(unclaimed).sum()
    }

    fn sentence(&self) -> String {
        let has_young = |(_, it): &(_, Unclaimed)| it.process.age < foreign::OLD;
        let first = first_line(
            self.left.orphans.len(),
            self.unclaimed.len(),
            self.unclaimed.iter().any(has_young),
            self.left.containers.len(),
            self.memory(),
        );
        first + unless(self.left.unknown.is_empty())
    }
}

/// Names the leftovers and the command that ends them. `known` servers are on record, `guessed`
/// ones only look like servers; some may be too `young` to be ended by default.
fn first_line(known: usize, guessed: usize, young: bool, containers: usize, memory: u64) -> String {
    let size = units::size(memory);
    let (number, what) = match known + guessed {
        0 => (containers, "container"),
        servers => (servers, "server"),
    };
    let all = match number {
        1 => format!("1 {what} was left behind"),
        _ => format!("{number} {what}s were left behind"),
    };
    let by_record = "To clean up: `mcp-contain reap`";
    let older = if young { " --older 0s" } else { "" };
    let by_guess = format!("`mcp-contain reap --foreign --yes{older}`");
    match (known, guessed, containers) {
        (0, 0, 0) => "Nothing was left behind.".to_owned(),
        (0, 0, _) => format!("{all}. {by_record}."),
        (0, ..) => format!("{all} it seems, {size}. Look below, then: {by_guess}."),
        (_, 0, _) => format!("{all}, {size}. {by_record}."),
        _ => format!("{all}, {size}. {by_record}; for {guessed}, look below, then: {by_guess}."),
    }
}

struct Machine {
    containment: Containment,
    /// The options with their keys, and why they are refused.
    refused: [(&'static str, &'static str, Option<String>); 5],
    no_record: Option<String>,
    sandboxes: Vec<&'static str>,
}

/// Returns the known sandboxes in `PATH`. `tests/run sandboxes` tries each on both sides.
fn sandboxes() -> Vec<&'static str> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_here = |name: &&str| env::split_paths(&path).any(|at| at.join(name).is_file());
    let known = ["bwrap", "codex", "nono", "srt"].into_iter();
    known.filter(is_here).collect()
}

/// A login session has no cgroup that its user may divide, and a scope of the user's systemd has one.
fn elsewhere(runtime: Option<OsString>) -> &'static str {
    let manager = runtime.map(|it| Path::new(&it).join("systemd/private"));
    match manager.is_some_and(|it| it.exists()) {
        true => "; it does behind `systemd-run --user --scope`",
        false => "",
    }
}

/// One of each kind.
fn limits() -> [Limits; 3] {
    let (mut memory, mut pids, mut cpus) = <(Limits, Limits, Limits)>::default();
    (memory.memory, pids.pids, cpus.cpus) = (Some(1), Some(1), Some(1));
    [memory, pids, cpus]
}

impl Machine {
    fn lines(&self, verbose: bool) -> Vec<String> {
        let held = &self.containment;
        let is_full = held.on_terminate >= Reach::Tree && held.on_host_death >= Reach::Tree;
        let why = held.fallback.as_deref();
        let why = why.unwrap_or("no guardian can be started");
        let mut lines = vec![match is_full {
            true => "On this machine a server ends with its program, and so does everything that it has started.".to_owned(),
            false => format!("On this machine a part of a server may outlive its program: {why}."),
        }];
        lines.extend(self.no_record.iter().map(|directories| {
            format!("Servers are not recorded, so `ps`, `stop` and `reap` may not find them: no state can be kept in {directories}.")
        }));
        if verbose {
            lines.push(format!("  held by {held}"));
            let here = "for a server that is started from here";
            let options = self.refused.iter();
            lines.extend(options.map(|(option, _, why_not)| match why_not {
                None => format!("  `{option}` works {here}"),
                Some(why) => format!("  `{option}` does not work {here}: {why}"),
            }));
        }
        let sides = "works in front of `mcp-contain` and behind it";
        lines.extend(self.sandboxes.iter().map(|name| match *name {
            "nono" => format!("`{name}` {sides}."),
            _ => format!("`{name}` {sides}, but not behind `--hardened` or `--write`."),
        }));
        lines
    }
}

fn text(leak: &Leak, machine: &Machine, files: &[Survey], verbose: bool) -> Vec<String> {
    let mut lines = vec![leak.sentence()];
    lines.extend(leak.left.servers());
    for (name, it) in &leak.unclaimed {
        let (process, number) = (&it.process, 1 + it.descendants.len());
        let line = line(name, process.pid, number, foreign::memory(it), process.age);
        lines.push(format!(
            "{line}; seems left behind: its input is closed and the program that started it is gone"
        ));
    }
    lines.extend(leak.left.others());
    if verbose {
        lines.push(
            "Counted as left behind: servers on record whose program is gone; and processes with `mcp` in the name of their program or package, \
             whose input is closed and whose parent is gone."
                .to_owned(),
        );
    }
    let running = units::count(leak.left.running, "server is", "servers are");
    lines.push(match leak.left.running {
        0 => "No server is running.".to_owned(),
        _ => format!("{running} running; `mcp-contain ps` lists them."),
    });
    lines.extend(machine.lines(verbose));
    lines.push(String::new());
    if files.is_empty() {
        lines.push("No configuration file of a known host was found.".to_owned());
    }
    for file in files {
        lines.extend(file_lines(file));
    }
    let is_bare = |file: &Survey| file.servers.iter().flatten().any(|it| !it.is_wrapped);
    if files.iter().any(is_bare) {
        lines.push(
            "`mcp-contain wrap` wraps them; with --dry-run it only shows what would change."
                .to_owned(),
        );
    }
    lines
}

fn file_lines(file: &Survey) -> Vec<String> {
    let title = format!("{}: {}", file.host.title, file.path.display());
    let servers = match &file.servers {
        Ok(servers) if servers.is_empty() => return Vec::new(),
        Ok(servers) => servers,
        Err(why) => return vec![format!("{title} {why}")],
    };
    let bare = servers.iter().filter(|it| !it.is_wrapped);
    let bare = bare.map(|it| it.title.rsplit(" › ").next().unwrap_or_default());
    let bare: Vec<_> = bare.collect();
    let wrapped = servers.len() - bare.len();
    let count = units::count(servers.len(), "server", "servers");
    let mut lines = vec![format!("{title}: {wrapped} of {count} wrapped")];
    if !bare.is_empty() {
        lines.push(format!("  not wrapped: {}", bare.join(", ")));
    }
    lines
}

fn as_json(leak: &Leak, machine: &Machine, files: &[Survey]) -> Value {
    let containment = &machine.containment;
    let unclaimed = leak.unclaimed.iter().map(|(name, it)| {
        json!({
            "name": name,
            "process": ps::process_as_json(&it.process),
            "descendants": it.descendants.iter().map(ps::process_as_json).collect::<Vec<_>>(),
        })
    });
    let servers = |file: &Survey| {
        let all = file.servers.as_ref().ok()?.iter();
        let all = all.map(|it| json!({"name": it.title, "wrapped": it.is_wrapped}));
        Some(all.collect::<Vec<_>>())
    };
    let files = files.iter().map(|file| {
        json!({
            "host": file.host.name,
            "path": file.path.display().to_string(),
            "servers": servers(file),
            "error": file.servers.as_ref().err(),
        })
    });
    let mut json = json!({
        "schema": "mcp-contain/doctor/1",
        "summary": leak.sentence(),
        "left": {
            "memory_bytes": leak.memory(),
            "orphans": leak.left.orphans.iter().flat_map(|it| &it.processes).map(ps::process_as_json).collect::<Vec<_>>(),
            "unclaimed": unclaimed.collect::<Vec<_>>(),
            "containers": texts(&leak.left.containers),
            "unknown": unknown::as_json(&leak.left.unknown),
        },
        "running": leak.left.running,
        "containment": {
            "mechanism": containment.mechanism,
            "says": containment.to_string(),
            "fallback": containment.fallback,
            "no_record": machine.no_record,
        },
        "sandboxes": machine.sandboxes,
        "files": files.collect::<Vec<_>>(),
    });
    for (_, key, why) in &machine.refused {
        json["containment"][key] = json!(why);
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_offered_where_the_user_has_a_systemd() {
        let runtime = tempfile::tempdir().unwrap();
        let of = |path: &Path| elsewhere(Some(path.into()));
        assert_eq!((elsewhere(None), of(runtime.path())), ("", ""));
        std::fs::create_dir(runtime.path().join("systemd")).unwrap();
        std::fs::write(runtime.path().join("systemd/private"), "").unwrap();
        assert!(of(runtime.path()).contains("systemd-run"));
    }

    #[test]
    fn the_first_line_says_what_was_left_and_the_command_that_ends_it() {
        for ((known, guessed, young, containers), expected) in [
            ((0, 0, false, 0), "Nothing was left behind."),
            (
                (1, 0, false, 2),
                "1 server was left behind, 9 MB. To clean up: `mcp-contain reap`.",
            ),
            (
                (3, 0, false, 0),
                "3 servers were left behind, 9 MB. To clean up: `mcp-contain reap`.",
            ),
            (
                (0, 1, true, 0),
                "1 server was left behind it seems, 9 MB. Look below, then: `mcp-contain reap --foreign --yes --older 0s`.",
            ),
            (
                (0, 2, false, 1),
                "2 servers were left behind it seems, 9 MB. Look below, then: `mcp-contain reap --foreign --yes`.",
            ),
            (
                (2, 1, false, 0),
                "3 servers were left behind, 9 MB. To clean up: `mcp-contain reap`; for 1, look below, then: `mcp-contain reap --foreign --yes`.",
            ),
            (
                (0, 0, false, 2),
                "2 containers were left behind. To clean up: `mcp-contain reap`.",
            ),
        ] {
            assert_eq!(
                first_line(known, guessed, young, containers, 9_000_000),
                expected
            );
        }
    }
}
