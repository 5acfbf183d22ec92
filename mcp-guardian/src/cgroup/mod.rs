//! A cgroup (version 2) of its own for each server, where there can be one.
//!
//! One write to `cgroup.kill` ends everything inside, whatever it forks meanwhile. It also lets the
//! host end a server, and *prove* its end, when the guardian was killed.
//!
//! The rules (`docs/containment.md`): a server joins by itself, before its first instruction. A leaf
//! is used for one server only, and not again after `cgroup.kill`. It lies below the host's own
//! cgroup, so that what ends or limits the host reaches its servers as well (except a server with
//! its own limit: `docs/contain-reference.md`).

mod leaf;
mod place;
mod room;

pub use leaf::{Doors, Leaf};

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::identity::{Cookie, HostId};
use crate::limits::Limits;
use crate::sys;

/// Returns the name of a server's cgroup. It is unique, because it is the server's identity.
pub fn name(server: &Cookie) -> String {
    format!("mcp-{}", server.token())
}

/// Returns the name of the cgroup of a server of this host that this path leads into.
pub fn name_in<'a>(path: &'a str, host: &HostId) -> Option<&'a str> {
    let any = name(&Cookie::new(host.clone(), 0));
    let ours = any.strip_suffix("0000000000000000")?;
    let mut parts = path.split('/');
    parts.find(|part| part.len() == any.len() && part.starts_with(ours))
}

/// Returns the directory of this process's cgroup, as of the first call.
pub fn parent() -> io::Result<&'static Path> {
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

/// Returns the mount points of cgroups of either version.
pub(crate) fn mounts() -> io::Result<Vec<PathBuf>> {
    Ok(place::mounts(&sys::bytes_of(
        "/proc/thread-self/mountinfo",
    )?))
}

fn own_directory() -> io::Result<PathBuf> {
    let missing = |what| io::Error::new(io::ErrorKind::NotFound, what);
    let membership = sys::bytes_of("/proc/thread-self/cgroup")?;
    let mounts = sys::bytes_of("/proc/thread-self/mountinfo")?;
    let own = place::own_path(&membership)
        .ok_or_else(|| missing("this process is in no cgroup of version 2"))?;
    place::directories(&mounts, own)
        .into_iter()
        // The path is written into ledgers, which are lines of text.
        .filter(|directory| directory.to_str().is_some_and(is_plain))
        .find(|directory| directory.join("cgroup.procs").exists())
        .ok_or_else(|| missing("its cgroup is not mounted"))
}

/// Returns the directory of the nearest cgroup below which one with these limits can be created.
/// The error has the reason and the remedy.
pub fn parent_with(limits: &Limits) -> io::Result<PathBuf> {
    let controllers = limits.controllers();
    let missing = |why: room::NoRoom| io::Error::new(io::ErrorKind::Unsupported, why.to_string());
    let membership = sys::bytes_of("/proc/thread-self/cgroup")?;
    let in_version_1 = room::is_in_version_1(&membership, &controllers);
    // Without version 2 the list is empty, which is the reason then.
    let levels = match parent() {
        Ok(own) if own.join("cgroup.events").exists() && !own.join("cgroup.kill").exists() => {
            return Err(missing(room::NoRoom::NoKill));
        }
        Ok(own) => {
            let level = |path| level(path, &controllers);
            own.ancestors().map_while(level).collect()
        }
        Err(error) if sys::is_shortage(&error) => return Err(error),
        Err(_) => Vec::new(),
    };
    let place = room::above(&levels, &controllers, in_version_1).map_err(missing)?;
    Ok(place.to_owned())
}

/// Reads what the kernel reports of the cgroup at this path; `None` if there is none.
fn level(path: &Path, controllers: &[&str]) -> Option<room::Level> {
    let read = |name| fs::read_to_string(path.join(name));
    let names_all = |list: String| {
        let names = |wanted: &&str| list.split_whitespace().any(|name| name == *wanted);
        controllers.iter().all(names)
    };
    let listed = read("cgroup.controllers").ok()?;
    let limit = read("memory.max").ok();
    let limit = limit.map(|limit| limit.trim().to_owned());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Some(room::Level {
        path: path.to_owned(),
        has: names_all(listed),
        gives: read("cgroup.subtree_control").is_ok_and(names_all),
        limit: limit.filter(|limit| limit != "max"),
        is_servers: is_servers(&name),
        is_writable: sys::may_write(path) && sys::may_write(&path.join("cgroup.procs")),
    })
}

fn is_servers(name: &str) -> bool {
    const TOKEN: usize = 32;
    let token = name.strip_prefix("mcp-").unwrap_or_default();
    token.len() == TOKEN && token.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns whether a path is absolute and without control characters, so that it fits into a line.
pub fn is_plain(path: &str) -> bool {
    path.starts_with('/') && !path.contains(char::is_control)
}
