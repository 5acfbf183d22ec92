//! Ends what dead hosts left.

use std::io;
use std::time::Duration;

use mcp_lifecycle_core::launch::{ReapReport, Remnant, UnknownRemnant};

use super::format::{Contents, Record};
use super::processes;
use super::search::{Killed, Search};
use super::settle::{Evidence, LeafState, Looked, Settlement, settle};
use super::shelf;
use super::shelves::{Shelved, Shelves};
use super::sight::{self, Sight};
use super::verdict::{DeadHost, Hosts, Mark, Process, may_be_of};
use crate::identity;

/// The longest time all of it may take. Killed processes are gone within milliseconds;
/// this is for those that nothing ends.
const LIMIT: Duration = Duration::from_secs(10);

/// Finds and ends it. Blocks; at most a little longer than [`LIMIT`].
pub(crate) fn reap() -> io::Result<ReapReport> {
    let sight = Sight::look()?;
    let mut report = ReapReport::new();
    let shelves = Shelves::look(&sight, &mut report.unknown);
    let dead: Vec<DeadHost> = shelves.dead.iter().map(Shelved::host).collect();
    let hosts = Hosts {
        this: identity::this_host().ok(),
        this_pid: std::process::id(),
        boot_id: &sight.boot_id,
        dead: &dead,
    };
    let living = shelves.living_hosts();
    let mut search = Search::new(&hosts, &living, LIMIT);
    // Everybody is sent SIGKILL before anybody is waited for.
    let leaves: Vec<_> = shelves
        .dead
        .iter()
        .map(|shelved| kill_inside(&mut search, shelved, &sight))
        .collect();
    let looked = end_marked(&mut search, &sight);
    for (shelved, leaves) in shelves.dead.iter().zip(leaves) {
        let mut state =
            |leaf: Result<_, _>| leaf.map_or_else(|known| known, |it| search.remove(it));
        let servers = leaves
            .into_iter()
            .map(|leaf| leaf.map(&mut state))
            .collect();
        let evidence = Evidence {
            servers,
            unreadable: shelved.contents.unreadable,
            looked: look_back(&mut search, shelved, &sight, looked.as_ref().err()),
        };
        match settle(&evidence) {
            Settlement::Settled => shelf::remove(&shelves.open[shelved.directory].1, &shelved.name),
            Settlement::Kept => {}
            Settlement::Unknown(why) => {
                let host = format!("of host {}", shelved.contents.host.pid());
                let record = Remnant::record(shelves.path(shelved).to_string_lossy(), host);
                report.unknown.push(UnknownRemnant::new(record, why));
            }
        }
    }
    search.finish(&mut report);
    Ok(report)
}

/// Sends SIGKILL to everybody in the cgroups of a dead host's servers.
fn kill_inside(
    search: &mut Search<'_>,
    shelved: &Shelved,
    sight: &Sight,
) -> Vec<Option<Result<Killed, LeafState>>> {
    let contents = &shelved.contents;
    let mut kill = |server: &Record| match shelf::find_leaf(contents, server) {
        Ok(None) => Err(LeafState::Gone),
        // Its members' numbers mean somebody else in the /proc here.
        Ok(Some(_)) if !sight.proc_is_own => Err(LeafState::Unseen(
            "the /proc here is that of another PID namespace".to_owned(),
        )),
        Ok(Some(leaf)) => search.kill_inside(&contents.host, leaf),
        Err(why) => Err(LeafState::Unseen(why)),
    };
    let servers = contents.servers.iter();
    servers
        .map(|server| server.in_cgroup.then(|| kill(server)))
        .collect()
}

/// Ends whoever carries the mark of a dead host.
fn end_marked(search: &mut Search<'_>, sight: &Sight) -> Result<(), String> {
    sight.covers(sight.namespace)?;
    search.end_marked()?;
    if sight.proc_hides {
        let hidden = sight::hidden();
        let hidden = hidden.map_err(|error| format!("hidden processes are not found: {error}"))?;
        search
            .doubts
            .extend(hidden.into_iter().map(processes::hidden));
    }
    Ok(())
}

/// Sums up the looks at the servers of one dead host.
fn look_back(
    search: &mut Search<'_>,
    shelved: &Shelved,
    sight: &Sight,
    failed: Option<&String>,
) -> Looked {
    let contents = &shelved.contents;
    let host = shelved.host();
    let recorded = survivors(contents, sight);
    let has_left = search.has_left(&host.id) || !recorded.is_empty();
    let says_so = |process: &Process| matches!(&process.mark, Mark::Cookie(cookie) if *cookie.host() == host.id);
    for process in recorded.into_iter().filter(|process| !says_so(process)) {
        let why = "it is on record as a server, but does not say so: its environment was changed";
        search.doubt(process, why.to_owned());
    }
    if has_left {
        return Looked::Survivor;
    }
    if let Some(why) = failed {
        return Looked::Unseen(why.clone());
    }
    if let Err(why) = sight.covers(host.namespace) {
        return Looked::Unseen(why);
    }
    let doubts: Vec<_> = search
        .doubts
        .iter()
        .filter(|process| may_be_of(process, &host.id))
        .cloned()
        .collect();
    let is_suspect = !doubts.is_empty();
    for process in doubts {
        let why = match &process.mark {
            Mark::Unseen(why) => why.clone(),
            _ => "it did not come to rest while it was looked at".to_owned(),
        };
        search.doubt(process, why);
    }
    match is_suspect {
        true => Looked::Suspect,
        false => Looked::Nobody,
    }
}

/// Servers on record that live, as told by number and time of start.
fn survivors(contents: &Contents, sight: &Sight) -> Vec<Process> {
    if !sight.counts_as(contents.namespace) {
        return Vec::new();
    }
    let lives = |server: &Record| {
        let (pid, start_time) = server.process?;
        let process = processes::read(pid)?;
        (process.start_time == start_time).then_some(process)
    };
    contents.servers.iter().filter_map(lives).collect()
}
