//! The ledgers of other hosts.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::census::{self, Carrier, Where};
use super::directory;
use super::format::{self, Contents, MAX, Record};
use super::lock::Locked;
use super::settle::{Evidence, LeafState, Looked, Settlement, settle};
use super::sight::Sight;
use crate::cgroup;
use crate::sys;
use crate::sys::stat::Stat;

/// What a file with the name of a ledger turned out to be.
#[derive(Debug)]
pub(super) enum Found {
    /// Its host lives, as far as anybody can tell.
    Living(Option<Contents>),
    /// Its host is dead, which it stays, in this boot.
    Dead(Contents),
    /// Nothing that it speaks of can be left: it is from before this boot, or
    /// its host died before it was ready.
    Litter,
    /// It cannot be used, for this reason.
    Unusable(String),
}

/// Opens what is called `name` and finds out about its owner. `None` if it has
/// gone.
pub(super) fn look(directory: &OwnedFd, name: &OsStr, sight: &Sight) -> Option<Found> {
    // A fifo must not make us wait for its other end, a link must not lead
    // elsewhere.
    let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let found = match openat(directory, name, flags, Mode::empty()) {
        Ok(file) => look_at(File::from(file), is_new(name), sight),
        Err(Errno::ENOENT) => return None,
        Err(Errno::ELOOP | Errno::ENXIO | Errno::EISDIR) => Err(not_ours()),
        Err(errno) => Err(errno.into()),
    };
    Some(found.unwrap_or_else(|error| Found::Unusable(error.to_string())))
}

fn look_at(file: File, is_new: bool, sight: &Sight) -> io::Result<Found> {
    let stat = fstat(&file)?;
    if !directory::is_own(&stat, SFlag::S_IFREG) {
        return Err(not_ours());
    }
    // Shared: a host holds it exclusively, and those who look do not take each
    // other for hosts.
    match Locked::shared(&file) {
        Err(TryLockError::WouldBlock) => Ok(Found::Living(read(&file)?)),
        Err(TryLockError::Error(error)) => {
            Err(io::Error::other(format!("it cannot be locked: {error}")))
        }
        // One that nobody has locked never gets its name: its host died, or will
        // notice and begin again.
        Ok(_) if is_new => Ok(Found::Litter),
        Ok(_lock) => {
            let is_old = stat.st_mtime < sight.boot_time;
            Ok(match read(&file)? {
                Some(contents) if contents.host.boot_id() != sight.boot_id => match is_old {
                    true => Found::Litter,
                    // Also a host in a virtual machine that shares the directory.
                    false => Found::Unusable("it was written in another boot".to_owned()),
                },
                Some(contents) if is_alive(&contents, sight) => Found::Living(Some(contents)),
                Some(contents) => Found::Dead(contents),
                None if is_old => Found::Litter,
                None => Found::Unusable("it is no ledger of this version".to_owned()),
            })
        }
    }
}

fn not_ours() -> io::Error {
    io::Error::other("it is not a file of this user's alone")
}

/// Returns whether there is still a process that says it is this host: a file system on
/// which locks do nothing must not make a living host look dead.
fn is_alive(contents: &Contents, sight: &Sight) -> bool {
    let host = &contents.host;
    let is_host = |stat: Stat| stat.start_time == host.start_time() && !stat.is_ending();
    contents.namespace == sight.namespace
        && sight.proc_is_own
        && Stat::read(host.pid()).is_ok_and(|stat| stat.is_some_and(is_host))
}

fn read(file: &File) -> io::Result<Option<Contents>> {
    let mut bytes = Vec::new();
    file.take(MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(format::parse(&bytes))
}

/// Returns whether a ledger had no name yet.
fn is_new(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(b".new")
}

pub(super) fn remove(directory: &OwnedFd, name: &OsStr) {
    if let Err(error) = unlinkat(directory, name, UnlinkatFlags::NoRemoveDir) {
        sys::shielded(|| tracing::debug!(%error, "the ledger of a dead host cannot be removed"));
    }
}

/// Removes ledgers of dead hosts of which nothing is left, and what a
/// host left that died before its ledger had a name. Best effort.
pub(super) fn tidy(directory: &OwnedFd, sight: &Sight) {
    let names = match directory::names(directory) {
        Ok(names) => names,
        Err(error) => {
            return sys::shielded(|| tracing::debug!(%error, "ledgers cannot be listed"));
        }
    };
    let mut dead = Vec::new();
    for name in names {
        match look(directory, &name, sight) {
            Some(Found::Dead(contents)) => dead.push((name, contents)),
            Some(Found::Litter) => remove(directory, &name),
            Some(Found::Living(_) | Found::Unusable(_)) | None => {}
        }
    }
    let since = dead.iter().map(|(_, contents)| contents.host.start_time());
    let carriers = Carriers {
        since: since.min().unwrap_or_default(),
        found: OnceCell::new(),
    };
    for (name, contents) in dead {
        if is_settled(&contents, sight, &carriers) {
            remove(directory, &name);
        }
    }
}

/// Who carries an identity, looked at once and only where it decides.
struct Carriers {
    since: u64,
    found: OnceCell<Result<Vec<Carrier>, String>>,
}

/// Returns whether nothing of it can be left. Empty cgroups, which guardians leave when
/// their host is killed, are removed on the way: a cgroup that can be removed has
/// nobody inside. Who has left it is looked for by its mark, and ended by nobody
/// here.
fn is_settled(contents: &Contents, sight: &Sight, carriers: &Carriers) -> bool {
    let state = |server: &Record| {
        server.in_cgroup.then(|| match find_leaf(contents, server) {
            Ok(None) => LeafState::Gone,
            Ok(Some(leaf)) => match fs::remove_dir(leaf) {
                Ok(()) => LeafState::Gone,
                Err(error) if error.kind() == io::ErrorKind::NotFound => LeafState::Gone,
                Err(_) => LeafState::Occupied,
            },
            Err(why) => LeafState::Unseen(why),
        })
    };
    // All of them, also after one that cannot be.
    let servers: Vec<_> = contents.servers.iter().map(state).collect();
    let all_gone = servers.iter().all(|leaf| *leaf == Some(LeafState::Gone));
    let looked = match all_gone && !servers.is_empty() && contents.unreadable == 0 {
        true => look_for(contents, sight, carriers),
        false => Looked::Unseen("no process was looked at".to_owned()),
    };
    let evidence = Evidence {
        servers,
        unreadable: contents.unreadable,
        looked,
    };
    settle(&evidence) == Settlement::Settled
}

/// Looks for processes of a dead host's servers.
fn look_for(contents: &Contents, sight: &Sight, carriers: &Carriers) -> Looked {
    if let Err(why) = sight.covers(contents.namespace) {
        return Looked::Unseen(why);
    }
    let take = || census::take(Where::Everywhere, carriers.since, &[]);
    let take = || take().map_err(|error| error.to_string());
    let carriers = match carriers.found.get_or_init(take) {
        Ok(carriers) => carriers,
        Err(why) => return Looked::Unseen(why.clone()),
    };
    let host = &contents.host;
    let survives = |it: &&Carrier| match &it.identity {
        Some(identity) => identity.host() == host,
        None => it.is_passing() && it.seen.start_time >= host.start_time(),
    };
    match carriers.iter().find(survives) {
        Some(_) => Looked::Survivor,
        None => Looked::Nobody,
    }
}

/// The cgroup of a dead host's server; `None` if it is gone.
pub(super) fn find_leaf(contents: &Contents, server: &Record) -> Result<Option<PathBuf>, String> {
    let place = contents.cgroups.as_ref();
    let place = place.ok_or("its ledger does not say where its cgroup is")?;
    place.find(&cgroup::name(&contents.cookie(*server)))
}
