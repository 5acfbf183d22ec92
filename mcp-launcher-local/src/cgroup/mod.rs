//! A cgroup (version 2) of its own for each server, where there can be one.
//!
//! What the guardian does by being relentless, `cgroup.kill` does by
//! construction: one write ends everything inside, whatever it forks
//! meanwhile. And it gives the host a way to end and to *prove* the end of a
//! server whose guardian was killed.
//!
//! ```text
//! place ── where: the cgroup of this process, by what the kernel says. Pure
//! leaf ─── one cgroup: made, opened for the guardian, emptied, removed
//! ```
//!
//! Rules, each of which was learned by an experiment (`docs/containment.md`):
//! a server joins by writing itself, before its first instruction; a leaf is
//! used for one server only and never again once `cgroup.kill` was written; it
//! lies below the host's own cgroup, so that whatever ends or limits the host
//! reaches its servers as well.

mod leaf;
mod place;

pub(crate) use leaf::Leaf;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::identity::{Cookie, HostId};
use crate::sys;

/// The name of a server's cgroup. Nobody else's is called that: the
/// name is the server's identity.
pub(crate) fn name(server: &Cookie) -> String {
    format!("mcp-{}", server.token())
}

/// The name of the cgroup of a server of this host that this path leads into.
pub(crate) fn name_in<'a>(path: &'a str, host: &HostId) -> Option<&'a str> {
    let any = name(&Cookie::new(host.clone(), 0));
    let ours = any.strip_suffix("0000000000000000")?;
    let mut parts = path.split('/');
    parts.find(|part| part.len() == any.len() && part.starts_with(ours))
}

/// The directory of this process's own cgroup, as of the first time of asking.
pub(crate) fn parent() -> io::Result<&'static Path> {
    static PARENT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let known = match PARENT.get() {
        Some(known) => known,
        None => match own_directory() {
            Err(error) if sys::is_shortage(&error) => return Err(error),
            found => PARENT.get_or_init(|| found.map_err(|error| error.to_string())),
        },
    };
    known
        .as_deref()
        .map_err(|error| io::Error::other(error.as_str()))
}

fn own_directory() -> io::Result<PathBuf> {
    let missing = |what| io::Error::new(io::ErrorKind::NotFound, what);
    let membership = sys::bytes_of("/proc/self/cgroup")?;
    let mounts = sys::bytes_of("/proc/self/mountinfo")?;
    let own = place::own_path(&membership)
        .ok_or_else(|| missing("this process is in no cgroup of version 2"))?;
    place::directories(&mounts, own)
        .into_iter()
        // It is written into ledgers, which are lines of text.
        .filter(|directory| directory.to_str().is_some_and(is_plain))
        .find(|directory| directory.join("cgroup.procs").exists())
        .ok_or_else(|| missing("its cgroup is not mounted"))
}

/// Returns whether a path can be part of a line.
pub(crate) fn is_plain(path: &str) -> bool {
    path.starts_with('/') && !path.contains(char::is_control)
}
