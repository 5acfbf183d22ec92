//! The lineage of each server of this host, and the thread that hears of forks (`docs/lineage.md`). Unmeasured:
//! compiled, and run on no machine of ours.
//!
//! All servers share one kqueue. A note says of which server its process is; nobody else's lineage is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use nix::errno::Errno;
use nix::sys::event::{FilterFlag, KEvent, Kqueue};

use super::super::{Member, Pid, shielded};
use super::xnu::Xnu;
use super::{facts, ids};
use crate::identity::Cookie;
use crate::lineage::{Lineage, System as _};

/// The lineage of a server, from here on.
///
/// # Drop
///
/// It is forgotten, and its members are watched no more. To be dropped before the server is reaped: until then its number is its own.
#[derive(Debug)]
pub(crate) struct Descent {
    server: Pid,
    traced: Option<Arc<Mutex<Traced>>>,
}

#[derive(Debug)]
struct Traced {
    lineage: Lineage,
    system: Xnu,
    /// Whoever is found from here on is to end.
    is_killed: bool,
}

/// The group of nobody.
const NO_GROUP: u32 = 0;

/// The servers of this host, by the number of their main process.
static SERVERS: Mutex<BTreeMap<Pid, Arc<Mutex<Traced>>>> = Mutex::new(BTreeMap::new());

/// Nothing: a server is looked at when it runs.
pub(super) fn prepare(_: &mut Command) {}

impl Descent {
    /// Begins with a child of ours that has not been reaped. Without one, the process group has to do.
    pub(crate) fn begin(server: Pid, identity: Option<&Cookie>) -> Self {
        let traced = trace(server, identity).map_err(|error| {
            let pid = server.as_u32();
            shielded(|| tracing::warn!(pid, %error, "who descends from a server cannot be seen"));
        });
        Self {
            server,
            traced: traced.ok(),
        }
    }

    /// SIGTERM for those who have left the group.
    pub(super) fn ask_to_end(&self) {
        let Some(traced) = &self.traced else { return };
        let Traced {
            lineage, system, ..
        } = &mut *lock(traced);
        report(lineage.ask_to_end(system, self.server.as_u32()));
    }

    /// SIGTERM for everybody, where the number of the group is nobody's.
    pub(crate) fn ask_each_to_end(&self) {
        let Some(traced) = &self.traced else { return };
        let Traced {
            lineage, system, ..
        } = &mut *lock(traced);
        report(lineage.ask_to_end(system, NO_GROUP));
    }

    /// Members that live. Blocks for some looks at all processes.
    pub(crate) fn members(&self) -> io::Result<Vec<Member>> {
        let traced = self.traced.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut traced = lock(traced);
        traced.look()?;
        let living = traced.lineage.living();
        Ok(living.map(|member| facts::member(member.pid)).collect())
    }

    /// Returns whether the server itself lives, by the id that is never given out twice.
    pub(crate) fn server_lives(&self) -> bool {
        let Some(traced) = &self.traced else {
            return false;
        };
        let now = ids::seen(self.server).ok().flatten();
        let unique = lock(traced).lineage.server();
        now.is_some_and(|now| now.unique == unique && !now.is_zombie)
    }

    /// SIGKILL for everybody. Blocks for some looks at all processes, and waits for nobody.
    pub(crate) fn end(&self) {
        let Some(traced) = &self.traced else { return };
        let mut traced = lock(traced);
        traced.is_killed = true;
        report(traced.look());
    }
}

impl Drop for Descent {
    fn drop(&mut self) {
        let Some(traced) = &self.traced else { return };
        {
            let mut servers = lock(&SERVERS);
            let known = servers.get(&self.server);
            // One whose guardian was killed may have lost its number to the next.
            if known.is_some_and(|known| Arc::ptr_eq(known, traced)) {
                servers.remove(&self.server);
            }
        }
        let Traced {
            lineage, system, ..
        } = &mut *lock(traced);
        for member in lineage.living() {
            system.unwatch(member.pid);
        }
    }
}

/// Members of a server who live outside of its group.
pub(super) fn outside(server: Pid) -> io::Result<Vec<Member>> {
    let traced = lock(&SERVERS).get(&server).cloned();
    let Some(traced) = traced else {
        return Ok(Vec::new());
    };
    let mut traced = lock(&traced);
    traced.look()?;
    let outside = traced
        .lineage
        .living()
        .filter(|member| member.group != server.as_u32());
    Ok(outside.map(|member| facts::member(member.pid)).collect())
}

/// Returns whether this process was alive and a server's when that was last looked at.
pub(super) fn is_member(pid: Pid) -> bool {
    let servers: Vec<_> = lock(&SERVERS).values().cloned().collect();
    let mut servers = servers.iter();
    servers.any(|traced| {
        lock(traced)
            .lineage
            .living()
            .any(|member| member.pid == pid)
    })
}

impl Traced {
    fn look(&mut self) -> io::Result<()> {
        match self.is_killed {
            true => self.lineage.end(&mut self.system).map(drop),
            false => self.lineage.tend(&mut self.system),
        }
    }
}

fn trace(server: Pid, identity: Option<&Cookie>) -> io::Result<Arc<Mutex<Traced>>> {
    let seen = ids::seen(server)?.ok_or(io::ErrorKind::NotFound)?;
    let mut traced = Traced {
        lineage: Lineage::of(seen),
        system: Xnu::new(
            forks()?,
            server,
            identity.map(Cookie::to_string),
            FilterFlag::NOTE_FORK,
        ),
        is_killed: false,
    };
    traced.look()?;
    let traced = Arc::new(Mutex::new(traced));
    lock(&SERVERS).insert(server, Arc::clone(&traced));
    Ok(traced)
}

/// The queue of notes, and its thread, which is started by the first server.
fn forks() -> io::Result<&'static Kqueue> {
    static FORKS: OnceLock<Arc<Kqueue>> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = lock(&STARTING);
    if let Some(forks) = FORKS.get() {
        return Ok(forks);
    }
    let forks = Arc::new(Kqueue::new()?);
    let heard = Arc::clone(&forks);
    thread::Builder::new()
        .name("mcp-lifecycle-lineage".to_owned())
        .spawn(move || hear(&heard))?;
    Ok(FORKS.get_or_init(|| forks))
}

fn hear(forks: &Kqueue) {
    let mut events = [super::no_event(); 64];
    loop {
        match forks.kevent(&[], &mut events, None) {
            Ok(count) => {
                let servers = events[..count].iter().map(KEvent::udata);
                let servers: BTreeSet<isize> = servers.collect();
                for server in servers {
                    let server = Pid::new(server as i64);
                    let traced = server.and_then(|server| lock(&SERVERS).get(&server).cloned());
                    if let Some(traced) = traced {
                        report(lock(&traced).look());
                    }
                }
            }
            Err(Errno::EINTR) => {}
            Err(error) => {
                shielded(|| tracing::error!(%error, "forks of servers are heard no more"));
                return;
            }
        }
    }
}

fn report(looked: io::Result<()>) {
    if let Err(error) = looked {
        shielded(|| tracing::warn!(%error, "processes cannot be listed"));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
