//! The cgroup below which one with limits can be created. Pure.
//!
//! The kernel offers `memory.max` below a cgroup that has `memory` in its `cgroup.subtree_control`.
//! Only a cgroup without processes of its own (or the root) can have that. The host is in its own,
//! so the place is further up; see `docs/contain-reference.md`.

use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) path: PathBuf,
    /// It could delegate the controllers: `cgroup.controllers`.
    pub(super) has: bool,
    /// It delegates them: `cgroup.subtree_control`.
    pub(super) gives: bool,
    /// The value of `memory.max`, unless that is `max`. A limit of processes is no reason against
    /// one that is lower: systemd gives one to every service and scope.
    pub(super) limit: Option<String>,
    pub(super) is_servers: bool,
    /// A cgroup can be created in it and a process moved there.
    pub(super) is_writable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRoom {
    #[error(
        "this machine has {0} in version 1 of cgroups; start its kernel with \
         `systemd.unified_cgroup_hierarchy=1` or `cgroup_no_v1={0}`"
    )]
    Version1(String),
    #[error("this kernel cannot kill a cgroup; it takes Linux 5.14")]
    NoKill,
    #[error(
        "no cgroup that is visible here has {0} (cgroup.controllers); in a container, limit the container"
    )]
    NoController(String),
    #[error(
        "no cgroup above {0} has {1} in its cgroup.subtree_control; start the host by \
         `systemd-run --user --scope`, or move the processes of {0} into a cgroup below it and write \
         it there, with a `+`"
    )]
    NotGiven(PathBuf, String),
    #[error(
        "{0} is not this user's; start the host by `systemd-run --user --scope`, or have it delegated \
         (`Delegate={1}`)"
    )]
    NotWritable(PathBuf, String),
    #[error(
        "its host has a limit of its own ({1} bytes, {0}/memory.max), which it would leave; that one holds it \
         without this option"
    )]
    Limited(PathBuf, String),
    #[error(
        "it is started by another contained server ({0}), which it would leave; give that one the limit"
    )]
    Inside(PathBuf),
}

/// Returns the place for a cgroup with limits by these controllers. `levels` begins with the
/// process's own; `in_version_1` says whether one of them is there.
pub(super) fn above<'a>(
    levels: &'a [Level],
    controllers: &[&str],
    in_version_1: bool,
) -> Result<&'a Path, NoRoom> {
    let names = controllers.join(",");
    for level in levels {
        if level.gives {
            return match level.is_writable {
                true => Ok(&level.path),
                false => Err(NoRoom::NotWritable(level.path.clone(), names)),
            };
        }
        // Anything further up is outside of that server.
        if level.is_servers {
            return Err(NoRoom::Inside(level.path.clone()));
        }
        if let Some(limit) = &level.limit {
            return Err(NoRoom::Limited(level.path.clone(), limit.clone()));
        }
    }
    let has = levels.iter().any(|level| level.has);
    match levels.first() {
        Some(own) if has => Err(NoRoom::NotGiven(own.path.clone(), names)),
        _ if in_version_1 => Err(NoRoom::Version1(names)),
        _ => Err(NoRoom::NoController(names)),
    }
}

/// Returns whether one of these is in a hierarchy of version 1: lines of `/proc/PID/cgroup` are
/// `number:controllers:path`.
pub(super) fn is_in_version_1(membership: &[u8], controllers: &[&str]) -> bool {
    let lines = membership.split(|&byte| byte == b'\n');
    let lists = lines.filter_map(|line| line.split(|&byte| byte == b':').nth(1));
    let mut names = lists.flat_map(|list| list.split(|&byte| byte == b','));
    names.any(|name| controllers.iter().any(|it| it.as_bytes() == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: &[&str] = &["memory"];

    fn level(path: &str) -> Level {
        Level {
            path: path.into(),
            has: true,
            gives: false,
            limit: None,
            is_servers: false,
            is_writable: true,
        }
    }

    fn gives(path: &str) -> Level {
        Level {
            gives: true,
            ..level(path)
        }
    }

    #[test]
    fn the_nearest_that_gives_memory_is_the_place() {
        let levels = [level("/u/app/host.scope"), gives("/u/app"), gives("/u")];
        assert_eq!(above(&levels, MEMORY, false), Ok(Path::new("/u/app")));
        // The root may contain processes and still delegate the controller.
        assert_eq!(above(&[gives("/")], MEMORY, false), Ok(Path::new("/")));
    }

    #[test]
    fn nobody_else_s_cgroup_is_a_place_nor_one_further_up() {
        let nearest = Level {
            is_writable: false,
            ..gives("/u/app")
        };
        let levels = [level("/u/app/host.scope"), nearest, gives("/u")];
        assert_eq!(
            above(&levels, MEMORY, false),
            Err(NoRoom::NotWritable("/u/app".into(), "memory".into()))
        );
    }

    #[test]
    fn a_server_does_not_leave_what_limits_its_host() {
        let limited = Level {
            limit: Some("1000".into()),
            ..level("/u/app/host.scope")
        };
        let levels = [limited, gives("/u/app")];
        assert_eq!(
            above(&levels, MEMORY, false),
            Err(NoRoom::Limited("/u/app/host.scope".into(), "1000".into()))
        );
        // A limited level that delegates the controller is used itself.
        let limited = Level {
            limit: Some("1000".into()),
            ..gives("/u/app")
        };
        let levels = [level("/u/app/host.scope"), limited];
        assert_eq!(above(&levels, MEMORY, false), Ok(Path::new("/u/app")));
    }

    #[test]
    fn a_server_does_not_leave_the_server_that_has_started_it() {
        let server = Level {
            is_servers: true,
            ..level("/u/mcp-1")
        };
        let levels = [server.clone(), gives("/u")];
        assert_eq!(
            above(&levels, MEMORY, false),
            Err(NoRoom::Inside("/u/mcp-1".into()))
        );
        let server = Level {
            gives: true,
            ..server
        };
        let levels = [level("/u/mcp-1/host"), server, gives("/u")];
        assert_eq!(above(&levels, MEMORY, false), Ok(Path::new("/u/mcp-1")));
    }

    #[test]
    fn where_nobody_gives_it_the_reason_is_told() {
        assert_eq!(
            above(&[level("/u/a"), level("/u")], MEMORY, false),
            Err(NoRoom::NotGiven("/u/a".into(), "memory".into()))
        );
        let without = Level {
            has: false,
            ..level("/")
        };
        assert_eq!(
            above(std::slice::from_ref(&without), MEMORY, true),
            Err(NoRoom::Version1("memory".into()))
        );
        assert_eq!(
            above(&[without], MEMORY, false),
            Err(NoRoom::NoController("memory".into()))
        );
        assert_eq!(
            above(&[], MEMORY, false),
            Err(NoRoom::NoController("memory".into()))
        );
    }

    #[test]
    fn version_1_is_told_by_the_names_of_controllers() {
        assert!(is_in_version_1(b"4:memory:/x\n0::/\n", MEMORY));
        assert!(is_in_version_1(b"4:cpu,memory:/\n", MEMORY));
        assert!(!is_in_version_1(b"4:name=memory:/\n0::/memory\n", MEMORY));
        assert!(!is_in_version_1(b"", MEMORY));
        assert!(is_in_version_1(b"4:cpu,cpuacct:/\n", &["pids", "cpu"]));
    }
}
