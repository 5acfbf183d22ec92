//! Record of the servers that this user's wrappers have started: how each was ended, as its guardian
//! has recorded it. The servers of a launcher are not in it; their hosts have a report for each.
//!
//! It is a ring of fixed size in the state directory: the oldest records are overwritten.
//!
//! ```text
//! header   "mcp-ring", number of the next record
//! record   first half, by the wrapper: "mcp-end1", serial, milliseconds since 1970, name
//!          second half, by the guardian: its end. Zeros before that
//! ```
//!
//! A record is claimed under a lock that is held for microseconds, and its space on the disk is
//! allocated then. The guardian completes its record if the first half is still its own. A file with
//! other contents is overwritten and prevents no start.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::file_size;
use nix::fcntl::OFlag;

use super::directory;
use super::locked_file::Locked;
pub use crate::program::ending::Ended;
use crate::program::ending::{Ending, HEAD_LEN, RECORD_LEN};
use mcp_lifecycle_core::launch::{Remnant, UnknownRemnant};

#[derive(Debug, Default)]
#[non_exhaustive]
pub struct History {
    /// Oldest first.
    pub servers: Vec<PastServer>,
    /// The entries that could not be read, and why.
    pub unknown: Vec<UnknownRemnant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastServer {
    /// [`KnownServer::id`](super::known::KnownServer::id).
    pub id: String,
    /// The name of the server: at most forty arbitrary bytes.
    pub name: String,
    pub started: SystemTime,
    /// Its end; `None` while it runs, and for ever if its guardian was killed.
    pub end: Option<Ended>,
}

const NAME: &str = "ended.ring";

/// The number of records: half a mebibyte.
const SLOTS: u64 = 4096;

const HEADER: &[u8; 8] = b"mcp-ring";
const RECORD: &[u8; 8] = b"mcp-end1";

const NAME_AT: usize = 24;

const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(1);

/// Records that this server is about to start, and returns the file, positioned at the record. After
/// a failure, the end of this server will not be in the history.
pub fn claim(within: impl AsFd, serial: u64, name: &OsStr) -> io::Result<File> {
    let mut ring = directory::open_file(within, NAME, OFlag::O_RDWR | OFlag::O_CREAT)?;
    let lock = lock(&ring)?;
    let mut header = [0; 16];
    let known = ring.read_exact_at(&mut header, 0).is_ok() && header.starts_with(HEADER);
    let next = if known { number(&header[8..]) } else { 0 };
    let at = (1 + next % SLOTS) * RECORD_LEN as u64;
    let mut record = [0; RECORD_LEN];
    record[..8].copy_from_slice(RECORD);
    record[8..16].copy_from_slice(&serial.to_le_bytes());
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(0));
    record[16..NAME_AT].copy_from_slice(&now.to_le_bytes());
    let room = &mut record[NAME_AT..HEAD_LEN];
    let len = name.len().min(room.len());
    room[..len].copy_from_slice(&name.as_bytes()[..len]);
    file_size::shielded(|| ring.write_all_at(&record, at))?;
    header[..8].copy_from_slice(HEADER);
    header[8..].copy_from_slice(&next.wrapping_add(1).to_le_bytes());
    file_size::shielded(|| ring.write_all_at(&header, 0))?;
    drop(lock);
    ring.seek(SeekFrom::Start(at))?;
    Ok(ring)
}

/// Reads the rings of all directories. Blocks for a few milliseconds. Invalid content is skipped.
pub fn look() -> History {
    let mut history = History::default();
    for (path, directory) in directory::open_own(directory::candidates()) {
        match directory.and_then(read) {
            Ok(servers) => history.servers.extend(servers),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let ring = Remnant::record(path.join(NAME).to_string_lossy(), "what ended");
                history
                    .unknown
                    .push(UnknownRemnant::new(ring, error.to_string()));
            }
        }
    }
    history.servers.sort_by_key(|server| server.started);
    history
}

fn read(within: impl AsFd) -> io::Result<Vec<PastServer>> {
    let ring = directory::open_file(within, NAME, OFlag::O_RDONLY)?;
    let mut bytes = Vec::new();
    ring.take((1 + SLOTS) * RECORD_LEN as u64)
        .read_to_end(&mut bytes)?;
    let records = bytes.chunks_exact(RECORD_LEN).skip(1);
    Ok(records.filter_map(past).collect())
}

fn lock(ring: &File) -> io::Result<Locked<&File>> {
    for _ in 0..ATTEMPTS {
        match Locked::exclusive(ring) {
            Ok(lock) => return Ok(lock),
            Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// Parses a record; `None` if it is none, or of a server that was not started.
fn past(record: &[u8]) -> Option<PastServer> {
    let (head, tail) = record.split_first_chunk::<HEAD_LEN>()?;
    let name = head[NAME_AT..].split(|byte| *byte == 0).next()?;
    let end = match Ending::decode(tail.first_chunk()?) {
        Some(Ending::NotStarted) => return None,
        Some(Ending::Ended(ended)) => Some(ended),
        None => None,
    };
    head.starts_with(RECORD).then_some(PastServer {
        id: format!("{:016x}", number(&head[8..16])),
        name: String::from_utf8_lossy(name).into_owned(),
        started: UNIX_EPOCH.checked_add(Duration::from_millis(number(&head[16..NAME_AT])))?,
        end,
    })
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::fd::OwnedFd;

    use nix::sys::stat::Mode;

    use super::*;

    fn place() -> (tempfile::TempDir, OwnedFd) {
        let directory = tempfile::tempdir().unwrap();
        let open = File::open(directory.path()).unwrap().into();
        (directory, open)
    }

    #[test]
    fn old_records_are_overwritten() {
        let (directory, within) = place();
        let long = "x".repeat(100);
        for serial in 0..SLOTS + 3 {
            claim(&within, serial, OsStr::new(&long)).unwrap();
        }
        let len = fs::metadata(directory.path().join(NAME)).unwrap().len();
        assert_eq!(len, (1 + SLOTS) * RECORD_LEN as u64);
        let servers = read(&within).unwrap();
        assert_eq!(servers.len() as u64, SLOTS);
        let ids: BTreeSet<_> = servers.iter().map(|it| it.id.as_str()).collect();
        assert!(!ids.contains("0000000000000002") && ids.contains("0000000000000003"));
        assert!(
            servers
                .iter()
                .all(|it| it.name.len() == 40 && it.end.is_none())
        );
    }

    #[test]
    fn concurrent_claims_get_records_of_their_own() {
        let (_directory, within) = place();
        let claimed = thread::scope(|scope| {
            let threads: Vec<_> = (0..8_u64)
                .map(|thread| {
                    let within = &within;
                    scope.spawn(move || {
                        (0..50)
                            .filter(|turn| {
                                claim(within, thread * 1000 + turn, OsStr::new("a")).is_ok()
                            })
                            .count()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|it| it.join().unwrap())
                .sum::<usize>()
        });
        let servers = read(&within).unwrap();
        let ids: BTreeSet<_> = servers.iter().map(|it| it.id.as_str()).collect();
        assert_eq!((ids.len(), servers.len()), (claimed, claimed));
    }

    #[test]
    fn other_content_is_overwritten() {
        use proptest::prelude::*;
        let (directory, within) = place();
        let ring = directory.path().join(NAME);
        let any = prop::collection::vec(any::<u8>(), 0..1024);
        proptest!(ProptestConfig::with_cases(64), |(mut bytes in any, at in 0_usize..8)| {
            // Some of them begin as a record does.
            let at = at * RECORD_LEN;
            if let Some(record) = bytes.get_mut(at..at + 8) {
                record.copy_from_slice(RECORD);
            }
            let mut file = File::options();
            let file = file.write(true).create(true).truncate(true).mode_600().open(&ring).unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            prop_assert!(read(&within).unwrap().len() <= 8);
            claim(&within, 7, OsStr::new("b")).unwrap();
            let servers = read(&within).unwrap();
            let is_there = servers.iter().any(|it| it.id == "0000000000000007" && it.name == "b");
            prop_assert!(is_there);
        });
    }

    trait Private {
        fn mode_600(&mut self) -> &mut Self;
    }

    impl Private for fs::OpenOptions {
        fn mode_600(&mut self) -> &mut Self {
            use std::os::unix::fs::OpenOptionsExt as _;
            self.mode(0o600)
        }
    }

    #[test]
    fn links_are_refused_and_a_held_lock_bounded() {
        let (directory, within) = place();
        let ring = directory.path().join(NAME);
        std::os::unix::fs::symlink("/dev/null", &ring).unwrap();
        assert!(claim(&within, 1, OsStr::new("a")).is_err());
        fs::remove_file(&ring).unwrap();
        nix::unistd::mkfifo(&ring, Mode::S_IRWXU).unwrap();
        assert!(claim(&within, 1, OsStr::new("a")).is_err());
        fs::remove_file(&ring).unwrap();
        let mine = claim(&within, 1, OsStr::new("a")).unwrap();
        mine.lock().unwrap();
        let error = claim(&within, 2, OsStr::new("a")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
