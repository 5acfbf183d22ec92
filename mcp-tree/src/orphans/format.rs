//! A ledger as text. Pure.
//!
//! The first line identifies the host. Each further line, of a fixed length, is a running server:
//!
//! ```text
//! mcp-lifecycle 2 PID START-TIME BOOT-ID NONCE PID-NAMESPACE CGROUP ROOT DEPTH DIRECTORY
//! SERIAL PID START-TIME c [KEY USER] [g] [u]
//! ```
//!
//! CGROUP is the inode number of the cgroup above the servers' cgroups, and ROOT that of the top of
//! the mount through which DIRECTORY leads to it, DEPTH parts further down. A host without cgroups
//! has a `-` in place of the four. KEY and USER are those of an [exclusive](Exclusive) server. A
//! server with a `g` is in a process group that a watcher ends; one with a `u` has no mark.
//!
//! The line of a server that has ended is overwritten with spaces and then reused. A ledger holds no
//! command, argument or environment. Further words of a line are a later version's, to be ignored.

use std::path::{Component, Path};

use super::place::Place;
use crate::cgroup::is_plain;
use crate::identity::{Cookie, HostId, decimal, hex};

/// The start of every ledger; the number counts incompatible changes.
const TITLE: &str = "mcp-lifecycle 2";

pub(super) const LINE: usize = 64;

/// The maximum length of a ledger in bytes: sixteen thousand servers.
pub(super) const MAX: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) host: HostId,
    /// The inode number of the host's PID namespace.
    pub(super) namespace: u64,
    pub(super) cgroups: Option<Place>,
    pub(super) servers: Vec<Record>,
    /// The number of lines that could not be read, from writes that were cut short.
    pub(super) unreadable: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Record {
    pub(super) serial: u64,
    /// The pid and start time of its process, once it runs.
    pub(super) process: Option<(u32, u64)>,
    pub(super) in_cgroup: bool,
    pub(super) in_group: bool,
    pub(super) is_unmarked: bool,
    pub(super) exclusive: Option<Exclusive>,
}

/// A server of which nothing may be left when the next one of the same key is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exclusive {
    /// A hash of its specification.
    pub key: u32,
    /// The pid of the program that uses it; 0 if that is in another PID namespace.
    pub user: u32,
}

pub(super) fn title(host: &HostId, namespace: u64, cgroups: Option<&Place>) -> String {
    let cgroups = cgroups.and_then(|place| {
        let path = place.path.to_str().filter(|path| is_plain(path))?;
        let (id, root, depth) = (place.id, place.root_id, place.depth);
        Some(format!("{id} {root} {depth} {path}"))
    });
    format!(
        "{TITLE} {} {} {} {:016x} {namespace} {}\n",
        host.pid(),
        host.start_time(),
        host.boot_id(),
        host.nonce(),
        cgroups.as_deref().unwrap_or("-"),
    )
}

/// Returns the line of a server; `None` is one that has ended.
pub(super) fn line(record: Option<Record>) -> [u8; LINE] {
    let text = record.map_or_else(String::new, |record| {
        let (pid, start_time) = record.process.unwrap_or_default();
        let kind = if record.in_cgroup { 'c' } else { '-' };
        let exclusive = record
            .exclusive
            .map_or_else(String::new, |it| format!(" {:08x} {}", it.key, it.user));
        let group = if record.in_group { " g" } else { "" };
        let mark = if record.is_unmarked { " u" } else { "" };
        format!(
            "{:016x} {pid} {start_time} {kind}{exclusive}{group}{mark}",
            record.serial
        )
    });
    let mut line = [b' '; LINE];
    line[LINE - 1] = b'\n';
    for (to, from) in line[..LINE - 1].iter_mut().zip(text.bytes()) {
        *to = from;
    }
    line
}

/// Parses a ledger; `None` for any other content.
pub(super) fn parse(bytes: &[u8]) -> Option<Contents> {
    if bytes.len() > MAX {
        return None;
    }
    let text = str::from_utf8(bytes).ok()?;
    let (title, rest) = text.split_once('\n')?;
    let mut words = title.strip_prefix(TITLE)?.strip_prefix(' ')?.splitn(6, ' ');
    let pid = u32::try_from(decimal(words.next()?)?).ok()?;
    let start_time = decimal(words.next()?)?;
    let boot_id = words.next()?;
    let nonce = hex(words.next()?)?;
    let namespace = decimal(words.next()?)?;
    let cgroups = match words.next()? {
        "-" => None,
        text => Some(place(text)?),
    };
    let mut contents = Contents {
        host: HostId::new(pid, start_time, boot_id, nonce)?,
        namespace,
        cgroups,
        servers: Vec::new(),
        unreadable: 0,
    };
    for line in rest.split('\n') {
        // A skipped line before a written one is zeros.
        let line = line.trim_matches([' ', '\0']);
        if line.is_empty() {
            continue;
        }
        match record(line) {
            Some(record) => contents.servers.push(record),
            None => contents.unreadable += 1,
        }
    }
    Some(contents)
}

fn record(line: &str) -> Option<Record> {
    let mut words = line.split(' ');
    let serial = hex(words.next()?)?;
    let pid = u32::try_from(decimal(words.next()?)?).ok()?;
    let start_time = decimal(words.next()?)?;
    let in_cgroup = match words.next()? {
        "c" => true,
        "-" => false,
        _ => return None,
    };
    let more: Vec<_> = words.collect();
    let key = more.first();
    let key = key.and_then(|word| u32::from_str_radix(word, 16).ok());
    let user = more.get(1).and_then(|word| word.parse().ok());
    let process = match pid {
        0 => None,
        1 => return None,
        pid => Some((pid, start_time)),
    };
    Some(Record {
        serial,
        process,
        in_cgroup,
        in_group: more.contains(&"g"),
        is_unmarked: more.contains(&"u"),
        exclusive: key.zip(user).map(|(key, user)| Exclusive { key, user }),
    })
}

/// Parses the place of a cgroup. Its path is absolute, without `.` and `..`.
fn place(text: &str) -> Option<Place> {
    let mut words = text.splitn(4, ' ');
    let id = decimal(words.next()?)?;
    let root_id = decimal(words.next()?)?;
    let depth = usize::try_from(decimal(words.next()?)?).ok()?;
    let path = words.next().filter(|path| is_plain(path))?;
    let straight = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    straight.then(|| Place {
        id,
        path: path.into(),
        root_id,
        depth,
    })
}

impl Contents {
    pub(super) fn cookie(&self, record: Record) -> Cookie {
        Cookie::new(self.host.clone(), record.serial)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOOT: &str = "01234567-89ab-cdef-0123-456789abcdef";

    fn host() -> HostId {
        HostId::new(42, 98765, BOOT, 7).unwrap()
    }

    fn place() -> Place {
        Place {
            id: 12,
            path: "/a b/c".into(),
            root_id: 1,
            depth: 1,
        }
    }

    fn records() -> impl Strategy<Value = Vec<Record>> {
        // The kernel's largest pid, and more than a century.
        let process = proptest::option::of((2..=1_u32 << 22, 0..1_u64 << 40));
        let exclusive = (any::<u32>(), 0..=1_u32 << 22);
        let exclusive = exclusive.prop_map(|(key, user)| Exclusive { key, user });
        let record = (
            any::<u64>(),
            process,
            any::<[bool; 3]>(),
            proptest::option::of(exclusive),
        );
        proptest::collection::vec(
            record.prop_map(
                |(serial, process, [in_cgroup, in_group, is_unmarked], exclusive)| Record {
                    serial,
                    process,
                    in_cgroup,
                    in_group,
                    is_unmarked,
                    exclusive,
                },
            ),
            0..20,
        )
    }

    fn written(records: &[Record]) -> Vec<u8> {
        let mut text = title(&host(), 4_026_531_836, Some(&place())).into_bytes();
        for record in records {
            text.extend(line(None));
            text.extend(line(Some(*record)));
        }
        text
    }

    proptest! {
        #[test]
        fn a_written_ledger_is_read(records in records()) {
            let contents = parse(&written(&records)).unwrap();
            prop_assert_eq!(contents.host, host());
            prop_assert_eq!(contents.namespace, 4_026_531_836);
            prop_assert_eq!(contents.cgroups, Some(place()));
            prop_assert_eq!(contents.servers, records);
            prop_assert_eq!(contents.unreadable, 0);
        }

        #[test]
        fn a_truncated_ledger_invents_no_server(records in records(), keep in 0.0..1.0) {
            let whole = written(&records);
            let part = &whole[..(whole.len() as f64 * keep) as usize];
            if let Some(contents) = parse(part) {
                for server in contents.servers {
                    // The last line may have lost its end, but not its middle.
                    prop_assert!(records.iter().any(|r| r.serial == server.serial));
                }
            }
        }

        #[test]
        fn garbage_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes);
            let mut titled = title(&host(), 0, None).into_bytes();
            titled.extend(&bytes);
            let _ = parse(&titled);
        }
    }

    #[test]
    fn other_content_is_no_ledger() {
        let good = format!("mcp-lifecycle 2 42 1 {BOOT} 0000000000000007 9 3 1 1 /a/b\n");
        assert!(parse(good.as_bytes()).is_some());
        for (from, to) in [
            (" 2 42", " 1 42"),
            (" 42 ", " 0 "),
            (" 42 ", " -1 "),
            (BOOT, "unknown"),
            (" 9 ", " - "),
            (" 3 1 1 ", " "),
            (" 3 1 1 ", " 3 1 "),
            (" /a/b\n", " relative\n"),
            (" /a/b\n", " /a/../b\n"),
            (" /a/b\n", "\n"),
            ("\n", ""),
        ] {
            assert_eq!(parse(good.replace(from, to).as_bytes()), None, "{to:?}");
        }
        assert_eq!(parse(&vec![b' '; MAX + 1]), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn unreadable_lines_are_counted() {
        let mut text = title(&host(), 0, None);
        text.push_str("0000000000000001 1 5 c\n0000000000000001 -1 5 c\nx\n");
        text.push_str("0000000000000001 7 5\n0000000000000001 7 5 cx\n\0\0\0\n");
        let contents = parse(text.as_bytes()).unwrap();
        assert_eq!((contents.servers, contents.unreadable), (Vec::new(), 5));
    }

    #[test]
    fn a_line_of_a_later_version_is_understood() {
        let text = title(&host(), 0, None) + "0000000000000001 7 5 c limits=3\n";
        let contents = parse(text.as_bytes()).unwrap();
        let server = Record {
            serial: 1,
            process: Some((7, 5)),
            in_cgroup: true,
            ..Record::default()
        };
        assert_eq!((contents.servers, contents.unreadable), (vec![server], 0));
    }
}
