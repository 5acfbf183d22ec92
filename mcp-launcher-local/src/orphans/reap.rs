//! Ends what dead hosts left.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_lifecycle_core::launch::{ReapReport, Remnant, UnknownRemnant};

use super::directory::{self, Refused};
use super::format::{Contents, Record};
use super::processes::{self, LivingHost};
use super::search::{Killed, Search};
use super::settle::{Evidence, LeafState, Looked, Settlement, settle};
use super::shelf::{self, Found};
use super::sight::{self, Sight};
use super::verdict::{DeadHost, Hosts, Mark, Process, may_be_of};
use crate::identity;
use crate::sys;

/// The longest time all of it may take. Killed processes are gone within milliseconds;
/// this is for those that nothing ends.
const LIMIT: Duration = Duration::from_secs(10);

/// Finds and ends it. Blocks; at most a little longer than [`LIMIT`].
pub(crate) fn reap() -> io::Result<ReapReport> {
    let sight = Sight::look()?;
    let mut report = ReapReport::new();
    let shelves = Shelves::look(&sight, &mut report);
    let dead: Vec<DeadHost> = shelves.dead.iter().map(Shelved::host).collect();
    let hosts = Hosts {
        this: identity::this_host().ok(),
        this_pid: std::process::id(),
        boot_id: &sight.boot_id,
        dead: &dead,
    };
    let mut search = Search::new(&hosts, &shelves.living, LIMIT);
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
        .filter(|process| may_be_of(process, &host))
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
    if contents.namespace != sight.namespace || !sight.proc_is_own {
        return Vec::new();
    }
    let lives = |server: &Record| {
        let (pid, start_time) = server.process?;
        let process = processes::read(pid)?;
        (process.start_time == start_time).then_some(process)
    };
    contents.servers.iter().filter_map(lives).collect()
}

/// What all directories hold.
#[derive(Default)]
struct Shelves {
    open: Vec<(PathBuf, OwnedFd)>,
    dead: Vec<Shelved>,
    living: Vec<LivingHost>,
}

/// The ledger of a dead host, and in which of the directories it is.
struct Shelved {
    directory: usize,
    name: OsString,
    contents: Contents,
}

impl Shelved {
    fn host(&self) -> DeadHost {
        DeadHost {
            id: self.contents.host.clone(),
            namespace: self.contents.namespace,
        }
    }
}

impl Shelves {
    /// No file stays open: a host that is dead stays dead, and a process of it
    /// that two searches end at once is dead as well.
    fn look(sight: &Sight, report: &mut ReapReport) -> Self {
        let mut shelves = Self::default();
        let mut unusable = |path: &Path, why: String| {
            let record = Remnant::record(path.to_string_lossy(), "whatever it says");
            report.unknown.push(UnknownRemnant::new(record, why));
        };
        for path in directory::candidates() {
            let listed = directory::open_own(&path).and_then(|directory| {
                let names = directory::names(&directory).map_err(Refused::Unusable)?;
                Ok((directory, names))
            });
            match listed {
                Ok((directory, names)) => {
                    for name in names {
                        if let Some(why) = shelves.sort(&directory, name.clone(), sight) {
                            unusable(&path.join(name), why);
                        }
                    }
                    shelves.open.push((path, directory));
                }
                Err(Refused::Missing) => {}
                Err(Refused::Foreign(owner)) => {
                    sys::shielded(|| {
                        tracing::debug!(?path, owner, "a directory is another user's");
                    });
                }
                Err(Refused::Unusable(error)) => unusable(&path, error.to_string()),
            }
        }
        // A copy of a ledger proves nothing while its host holds another one.
        let living: BTreeSet<_> = shelves.living.iter().map(|host| &host.id).collect();
        shelves
            .dead
            .retain(|dead| !living.contains(&dead.contents.host));
        shelves
    }

    /// Says why a ledger cannot be used, if that is so.
    fn sort(&mut self, directory: &OwnedFd, name: OsString, sight: &Sight) -> Option<String> {
        match shelf::look(directory, &name, sight)? {
            Found::Dead(contents) => self.dead.push(Shelved {
                directory: self.open.len(),
                name,
                contents,
            }),
            Found::Living(contents) => self.living.extend(contents.map(|contents| LivingHost {
                id: contents.host,
                namespace: contents.namespace,
            })),
            Found::Litter => shelf::remove(directory, &name),
            Found::Unusable(why) => return Some(why),
        }
        None
    }

    fn path(&self, shelved: &Shelved) -> PathBuf {
        self.open[shelved.directory].0.join(&shelved.name)
    }
}
