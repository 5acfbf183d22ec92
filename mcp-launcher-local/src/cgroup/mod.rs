//! A cgroup (version 2) of its own for each server, where there can be one.
//!
//! What the guardian does by being relentless, `cgroup.kill` does by
//! construction: one write ends everything inside, whatever it forks
//! meanwhile. And it gives the host a way to end and to *prove* the end of a
//! server whose guardian was killed.
//!
//! ```text
//! place ── where: the cgroup of this process, by what the kernel says. Pure
//! room ─── where one with a limit of memory can be: above that of this process. Pure
//! leaf ─── one cgroup: made, opened for the guardian, emptied, removed
//! ```
//!
//! Rules, each of which was learned by an experiment (`docs/containment.md`):
//! a server joins by writing itself, before its first instruction; a leaf is
//! used for one server only and never again once `cgroup.kill` was written; it
//! lies below the host's own cgroup, so that whatever ends or limits the host
//! reaches its servers as well (but for one with a limit of its own:
//! `docs/contain-memory.md`).

mod leaf;
mod place;
mod room;

pub(crate) use leaf::Leaf;

use std::fs;
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

/// The directory of the nearest cgroup below which one can have a limit of memory.
///
/// # Errors
///
/// There is none, for the reason that is told, with what to do.
pub(crate) fn parent_with_memory() -> io::Result<PathBuf> {
    let missing = |why: room::NoRoom| io::Error::new(io::ErrorKind::Unsupported, why.to_string());
    let in_version_1 = room::is_in_version_1(&sys::bytes_of("/proc/self/cgroup")?);
    // Where there is no version 2 at all, the reason is that.
    let levels = match parent() {
        Ok(own) => own.ancestors().map_while(level).collect(),
        Err(error) if sys::is_shortage(&error) => return Err(error),
        Err(_) => Vec::new(),
    };
    let place = room::above(&levels, in_version_1).map_err(missing)?;
    Ok(place.to_owned())
}

/// What the kernel says of the cgroup at this path; `None` if there is none.
fn level(path: &Path) -> Option<room::Level> {
    let read = |name| fs::read_to_string(path.join(name));
    let names_memory = |list: String| list.split_whitespace().any(|name| name == "memory");
    let controllers = read("cgroup.controllers").ok()?;
    let limit = read("memory.max").ok();
    let limit = limit.map(|limit| limit.trim().to_owned());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Some(room::Level {
        path: path.to_owned(),
        has_memory: names_memory(controllers),
        gives_memory: read("cgroup.subtree_control").is_ok_and(names_memory),
        limit: limit.filter(|limit| limit != "max"),
        is_servers: is_servers(&name),
        is_writable: sys::may_write(path) && sys::may_write(&path.join("cgroup.procs")),
    })
}

/// Returns whether a cgroup of this name is a server's.
fn is_servers(name: &str) -> bool {
    const TOKEN: usize = 32;
    let token = name.strip_prefix("mcp-").unwrap_or_default();
    token.len() == TOKEN && token.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns whether a path can be part of a line.
pub(crate) fn is_plain(path: &str) -> bool {
    path.starts_with('/') && !path.contains(char::is_control)
}
