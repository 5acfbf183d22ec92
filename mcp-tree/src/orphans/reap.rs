//! Ends the processes of dead hosts' servers.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::foreign_ledgers::{self, DeadLedger, Ledgers};
use super::format::{Contents, Record};
use super::search::{Search, kill_or_wake};
use super::settle::{Evidence, LeafState, Looked, Settlement, settle};
use super::verdict::{DeadHost, Hosts, Mark, Process, may_be_of};
use super::visibility::{self, Visibility};
use super::{directory, processes};
use crate::cgroup::Leaf;
use crate::identity;
use mcp_lifecycle_core::launch::{ReapReport, Remnant, UnknownRemnant};

/// The limit of the whole run, for processes that SIGKILL does not end.
const LIMIT: Duration = Duration::from_secs(10);

/// The limit of the search before ledgers are removed at the start of a host.
const TIDY_LIMIT: Duration = Duration::from_secs(1);

/// Finds and ends them. Blocks, at most a little longer than 10 s.
pub fn reap() -> io::Result<ReapReport> {
    let visibility = Visibility::look()?;
    let mut report = ReapReport::default();
    let ledgers = Ledgers::look(directory::candidates(), &visibility, &mut report.unknown);
    let dead: Vec<DeadHost> = ledgers.dead.iter().map(DeadLedger::host).collect();
    let hosts = hosts(&dead, &visibility);
    let mut search = Search::new(&hosts, &ledgers.living, kill_or_wake, LIMIT);
    // All are sent SIGKILL before any is waited for.
    let leaves: Vec<_> = ledgers
        .dead
        .iter()
        .map(|ledger| kill_inside(&mut search, ledger, &visibility))
        .collect();
    let looked = visibility.covers(visibility.namespace);
    let looked = looked.and_then(|()| search.end_marked());
    let looked = looked.and_then(|()| note_hidden(&mut search, &visibility));
    for (ledger, leaves) in ledgers.dead.iter().zip(leaves) {
        let mut state =
            |leaf: Result<_, _>| leaf.map_or_else(|known| known, |it| search.remove(it));
        let leaves = leaves.into_iter();
        let servers = leaves.map(|leaf| leaf.map(&mut state)).collect();
        match look_back(&mut search, ledger, servers, &visibility, &looked) {
            Settlement::Settled => ledger.remove(),
            Settlement::Kept => {}
            Settlement::Unknown(why) => {
                let host = format!("of host {}", ledger.contents.host.pid());
                let record = Remnant::record(ledger.path.to_string_lossy(), host);
                report.unknown.push(UnknownRemnant::new(record, why));
            }
        }
    }
    search.finish(&mut report);
    Ok(report)
}

/// Removes the ledgers in this directory of dead hosts of which nothing is left. No process is
/// signalled. Best effort.
pub(super) fn tidy(directory: Option<PathBuf>) {
    let Ok(visibility) = &Visibility::look() else {
        return;
    };
    let mut ledgers = Ledgers::look(directory, visibility, &mut Vec::new());
    ledgers.dead.retain(DeadLedger::has_no_cgroups);
    let is_blank = |ledger: &mut DeadLedger| ledger.contents.servers.is_empty();
    for ledger in ledgers.dead.extract_if(.., is_blank) {
        ledger.remove();
    }
    if ledgers.dead.is_empty() {
        return;
    }
    let dead: Vec<DeadHost> = ledgers.dead.iter().map(DeadLedger::host).collect();
    let hosts = hosts(&dead, visibility);
    let mut search = Search::new(&hosts, &ledgers.living, |_, _| Ok(()), TIDY_LIMIT);
    let looked = visibility.covers(visibility.namespace);
    let looked = looked.and_then(|()| search.end_marked());
    for ledger in &ledgers.dead {
        let servers = vec![Some(LeafState::Gone); ledger.contents.servers.len()];
        let settlement = look_back(&mut search, ledger, servers, visibility, &looked);
        if settlement == Settlement::Settled {
            ledger.remove();
        }
    }
}

fn hosts<'a>(dead: &'a [DeadHost], visibility: &'a Visibility) -> Hosts<'a> {
    Hosts {
        this: identity::this_host().ok(),
        this_pid: std::process::id(),
        boot_id: &visibility.boot_id,
        dead,
    }
}

fn kill_inside(
    search: &mut Search<'_>,
    ledger: &DeadLedger,
    visibility: &Visibility,
) -> Vec<Option<Result<Leaf, LeafState>>> {
    let contents = &ledger.contents;
    let mut kill = |server: &Record| match foreign_ledgers::find_leaf(contents, server) {
        Ok(None) => Err(LeafState::Gone),
        // Its members' pids mean other processes in the /proc here.
        Ok(Some(_)) if !visibility.proc_is_own => Err(LeafState::Unseen(
            "the /proc here is that of another PID namespace".to_owned(),
        )),
        Ok(Some(leaf)) => search.kill_inside(&contents.host, leaf),
        Err(why) => Err(LeafState::Unseen(why)),
    };
    let servers = contents.servers.iter();
    servers
        .map(|server| (server.in_cgroup || server.is_unmarked).then(|| kill(server)))
        .collect()
}

/// Notes the processes that `/proc` hides, which may carry any mark.
fn note_hidden(search: &mut Search<'_>, visibility: &Visibility) -> Result<(), String> {
    if visibility.proc_hides {
        let hidden = visibility::hidden();
        let hidden = hidden.map_err(|error| format!("hidden processes are not found: {error}"))?;
        let hidden = hidden.into_iter().map(processes::hidden);
        search.unproven.extend(hidden);
    }
    Ok(())
}

fn look_back(
    search: &mut Search<'_>,
    ledger: &DeadLedger,
    servers: Vec<Option<LeafState>>,
    visibility: &Visibility,
    looked: &Result<(), String>,
) -> Settlement {
    settle(&Evidence {
        servers,
        unreadable: ledger.contents.unreadable,
        looked: sum_up(search, ledger, visibility, looked.as_ref().err()),
    })
}

fn sum_up(
    search: &mut Search<'_>,
    ledger: &DeadLedger,
    visibility: &Visibility,
    failed: Option<&String>,
) -> Looked {
    let contents = &ledger.contents;
    let host = ledger.host();
    let recorded = survivors(contents, visibility);
    let has_left = search.has_left(&host.id) || !recorded.is_empty();
    let says_so = |process: &Process| matches!(&process.mark, Mark::Cookie(cookie) if *cookie.host() == host.id);
    for process in recorded.into_iter().filter(|process| !says_so(process)) {
        let why = "it is recorded as a server but carries no mark: its environment was changed";
        search.doubt(process, why.to_owned());
    }
    if has_left {
        return Looked::Survivor;
    }
    if let Some(why) = failed {
        return Looked::Unseen(why.clone());
    }
    if let Err(why) = visibility.covers(host.namespace) {
        return Looked::Unseen(why);
    }
    let unproven: Vec<_> = search
        .unproven
        .iter()
        .filter(|process| may_be_of(process, &host.id))
        .cloned()
        .collect();
    let is_suspect = !unproven.is_empty();
    for process in unproven {
        let why = process.mark.reason().to_owned();
        search.doubt(process, why);
    }
    match is_suspect {
        true => Looked::Suspect,
        false => Looked::Clear,
    }
}

/// Returns the recorded servers that live, by pid and start time.
fn survivors(contents: &Contents, visibility: &Visibility) -> Vec<Process> {
    if !visibility.counts_as(contents.namespace) {
        return Vec::new();
    }
    let lives = |server: &Record| {
        let (pid, start_time) = server.process?;
        let process = processes::read(pid)?;
        (process.start_time == start_time).then_some(process)
    };
    contents.servers.iter().filter_map(lives).collect()
}
