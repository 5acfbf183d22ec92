//! `doctor`: what is left behind now, what this machine can hold and why not more, and which hosts
//! are wrapped.

use std::collections::BTreeSet;
use std::process::ExitCode;

use mcp_launcher_local::inventory::{self, HostState, KnownProcess, Unclaimed};
use mcp_lifecycle_core::launch::{Containment, Remnant, UnknownRemnant};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::show::text::printable;
use crate::show::{out, units, unknown};
use crate::wrap::survey::{Server, Survey, is_found, survey};
use crate::{containers, foreign, ps};

/// `PATH` of programs that are started from a desktop, as a rule.
const DESKTOP_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Options of how it is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print JSON (docs/contain-operate.md)
    #[arg(long)]
    json: bool,
}

/// Looks, and changes nothing. Ledgers of an earlier boot go, as for whoever looks at ledgers.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let leak = Leak::look()?;
    let machine = Machine {
        containment: inventory::containment(),
        no_memory_limit: inventory::memory_limit().err().map(|why| why.to_string()),
    };
    let files = survey();
    match options.json {
        true => out::line(format_args!("{:#}", as_json(&leak, &machine, &files))),
        false => out::print(printable(&text(&leak, &machine, &files))),
    }
    Ok(ExitCode::SUCCESS)
}

/// Processes that hosts have left, as of now.
struct Leak {
    /// Servers of dead hosts that are known by their ledgers.
    orphans: Vec<KnownProcess>,
    /// Processes that look like a server, have lost their parent and are nobody's.
    unclaimed: Vec<(String, Unclaimed)>,
    running: usize,
    /// Containers that servers of dead hosts started.
    containers: Vec<Remnant>,
    /// Places that could not be looked at: there may be more of everything there.
    unknown: Vec<UnknownRemnant>,
}

impl Leak {
    fn look() -> Result<Self, Failure> {
        let seen = ps::look()?;
        let (dead, alive): (Vec<_>, Vec<_>) = seen
            .servers
            .into_iter()
            .partition(|server| server.host.state == HostState::Dead);
        let left = containers::look();
        Ok(Self {
            orphans: dead
                .into_iter()
                .flat_map(|server| server.processes)
                .collect(),
            unclaimed: foreign::look()?,
            running: alive.len(),
            containers: left.containers,
            unknown: seen.unknown.into_iter().chain(left.unknown).collect(),
        })
    }

    fn processes(&self) -> impl Iterator<Item = &KnownProcess> {
        let unclaimed = self.unclaimed.iter();
        let unclaimed =
            unclaimed.flat_map(|(_, it)| std::iter::once(&it.process).chain(&it.descendants));
        self.orphans.iter().chain(unclaimed)
    }

    fn memory(&self) -> u64 {
        self.processes().filter_map(|process| process.memory).sum()
    }

    /// The user's own leak, in one sentence; and another one if there may be more.
    fn sentence(&self) -> String {
        let known = self.known();
        match (self.unknown.is_empty(), known) {
            (true, Some(known)) => known,
            (false, Some(known)) => format!("{known} Not everything could be looked at."),
            (true, None) => {
                "Nothing that looks like an MCP server was left behind by a host that is gone."
                    .to_owned()
            }
            (false, None) => "Nothing that looks like an MCP server was found that a host left behind, but not everything could be looked at.".to_owned(),
        }
    }

    fn known(&self) -> Option<String> {
        let processes = self.processes().count();
        if processes == 0 {
            let containers = units::count(self.containers.len(), "container", "containers");
            return (!self.containers.is_empty())
                .then(|| format!("{containers} of MCP servers whose host is gone are left."));
        }
        let servers = units::count(processes, "process", "processes");
        let ages = self.processes().map(|process| process.age);
        Some(format!(
            "{servers} of MCP servers whose host is gone still run and hold {} of memory; the oldest since {}.",
            units::size(self.memory()),
            units::time(ages.max().unwrap_or_default())
        ))
    }
}

/// What this machine can hold.
struct Machine {
    containment: Containment,
    /// Why `--memory` cannot be kept.
    no_memory_limit: Option<String>,
}

fn text(leak: &Leak, machine: &Machine, files: &[Survey]) -> String {
    let mut lines = vec![leak.sentence(), String::new()];
    if !leak.orphans.is_empty() {
        let orphans = units::count(leak.orphans.len(), "process is", "processes are");
        lines.push(format!(
            "{orphans} known by identity: `mcp-contain reap` ends them."
        ));
    }
    for (name, it) in &leak.unclaimed {
        let process = &it.process;
        let more = match it.descendants.len() {
            0 => String::new(),
            number => format!(" and {number} below it"),
        };
        let age = units::time(process.age);
        lines.push(format!(
            "  {name}: process {}{more}, since {age}: it looks like a server, but nothing says so: look what it is before `mcp-contain reap --foreign` ends it",
            process.pid
        ));
    }
    if !leak.containers.is_empty() {
        let found = units::count(leak.containers.len(), "container is", "containers are");
        lines.push(format!(
            "{found} known by label: `mcp-contain reap` removes what is there."
        ));
    }
    lines.extend(unknown::lines(&leak.unknown));
    let running = units::count(leak.running, "server runs", "servers run");
    lines.push(format!(
        "{running} under containment now (`mcp-contain ps`)."
    ));
    lines.push(format!("This machine: {}.", machine.containment));
    lines.push(match &machine.no_memory_limit {
        None => "A limit of memory (`--memory`) can be set for a server that is started from here."
            .to_owned(),
        Some(why) => format!("A limit of memory (`--memory`) cannot be set from here: {why}."),
    });
    lines.push(String::new());
    if files.is_empty() {
        lines.push("No configuration file of a known host was found.".to_owned());
    }
    for file in files {
        lines.extend(file_lines(file));
    }
    if files.iter().any(|file| {
        file.servers
            .as_ref()
            .is_ok_and(|all| all.iter().any(|it| !it.is_wrapped))
    }) {
        lines.push("`mcp-contain wrap --dry-run` shows what would change.".to_owned());
    }
    lines.join("\n") + "\n"
}

fn file_lines(file: &Survey) -> Vec<String> {
    let title = format!("{}: {}", file.host.title, file.path.display());
    let servers = match &file.servers {
        Ok(servers) if servers.is_empty() => return Vec::new(),
        Ok(servers) => servers,
        Err(why) => return vec![format!("{title} {why}")],
    };
    let bare: Vec<_> = servers
        .iter()
        .filter(|it| !it.is_wrapped)
        .map(|it| it.title.as_str())
        .collect();
    let wrapped = servers.len() - bare.len();
    let mut lines = vec![format!(
        "{title}: {wrapped} of {} wrapped",
        units::count(servers.len(), "server", "servers")
    )];
    if !bare.is_empty() {
        lines.push(format!("  not wrapped: {}", bare.join(", ")));
    }
    let lost: BTreeSet<_> = servers
        .iter()
        .filter(|it| is_lost(file, it))
        .map(|it| it.program.as_str())
        .collect();
    if !lost.is_empty() {
        let lost = lost.into_iter().collect::<Vec<_>>().join(", ");
        lines.push(format!(
            "  may not be found with the PATH that {} has: {lost}",
            file.host.title
        ));
    }
    lines
}

/// Returns whether the host may not find the program.
fn is_lost(file: &Survey, server: &Server) -> bool {
    let own = std::env::var("PATH").unwrap_or_default();
    let path = if file.host.is_desktop {
        DESKTOP_PATH
    } else {
        &own
    };
    !is_found(&server.program, path)
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
        let all = file.servers.as_ref().ok()?;
        let all = all.iter().map(|it| {
            json!({"name": it.title, "wrapped": it.is_wrapped, "program": it.program, "found": !is_lost(file, it)})
        });
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
    json!({
        "schema": "mcp-contain/doctor/1",
        "summary": leak.sentence(),
        "left": {
            "memory_bytes": leak.memory(),
            "orphans": leak.orphans.iter().map(ps::process_as_json).collect::<Vec<_>>(),
            "unclaimed": unclaimed.collect::<Vec<_>>(),
            "containers": leak.containers.iter().map(Remnant::to_string).collect::<Vec<_>>(),
            "unknown": unknown::as_json(&leak.unknown),
        },
        "running": leak.running,
        "containment": {
            "mechanism": containment.mechanism,
            "says": containment.to_string(),
            "fallback": containment.fallback,
            "no_memory_limit": machine.no_memory_limit,
        },
        "files": files.collect::<Vec<_>>(),
    })
}
