//! The messages between the host and the guardian, one a datagram, little-endian. Both sides are
//! compiled from this file: it uses `core` alone and allocates nothing.

/// The guardian's end of the control socket.
pub const CONTROL_FD: i32 = 3;
/// `cgroup.procs`, by which the server joins its cgroup. This and the following are passed if
/// [`flag_of`] them is set.
pub const CGROUP_PROCS_FD: i32 = 4;
/// `cgroup.kill`, by which the guardian kills as well.
pub const CGROUP_KILL_FD: i32 = 5;
/// The ledger, which the guardian keeps locked and removes at the end.
pub const LEDGER_FD: i32 = 6;
/// The directory that the ledger is in.
pub const LEDGER_DIR_FD: i32 = 7;
/// The server's cgroup, in which it is born where that is possible.
pub const CGROUP_LEAF_FD: i32 = 8;
/// The ring of ended servers, at the server's record, which the guardian completes.
pub const RING_FD: i32 = 9;
/// The socket to the companion, which the guardian only keeps open.
pub const COMPANION_FD: i32 = 10;
/// The socket to the server's process, where the host has forked it: it executes its program once
/// the guardian has sent [`GO`], and never if it reads another number or the end.
pub const GATE_FD: i32 = 11;
/// The report of the server, which the guardian appends lines to.
pub const REPORT_FD: i32 = 12;
/// The rules that the server and all its descendants are restricted to (landlock(7)).
pub const RULES_FD: i32 = 13;
pub const FIRST_FREE_FD: i32 = 14;

pub const fn flag_of(fd: i32) -> u32 {
    1 << fd
}

/// The server gets a PID namespace of its own.
pub const FLAG_PID_NAMESPACE: u32 = flag_of(FIRST_FREE_FD);
/// There is no server: the guardian leaves an orphan, which reports its new parent.
pub const FLAG_ORPHAN: u32 = 2 * FLAG_PID_NAMESPACE;
/// No host empties the server's cgroup: the guardian kills what is left inside.
pub const FLAG_ALONE: u32 = 4 * FLAG_PID_NAMESPACE;
/// The last variable of the environment is for the guardian only.
pub const FLAG_OWN_VARIABLE: u32 = 8 * FLAG_PID_NAMESPACE;
/// The server's cgroup has a memory limit: the guardian reports when it was reached.
pub const FLAG_MEMORY: u32 = 16 * FLAG_PID_NAMESPACE;
/// The server stays in the process group of its host, which has the terminal.
pub const FLAG_FOREGROUND: u32 = 32 * FLAG_PID_NAMESPACE;

/// The guardian is ready: by [`GATE_FD`], in the place of an `errno`.
pub const GO: [u8; 4] = [0; 4];

/// To the companion, from the guardian: nothing is left of the server.
pub const SERVER_GONE: u8 = b'G';
/// From the companion, to the guardian: nothing is left of what the companion looks after.
pub const COMPANION_DONE: u8 = b'D';

/// Arguments of the guardian before those of the server: its own name, pid of the host, flags,
/// posthumous grace in milliseconds, path of the cgroup from [`CGROUP_LEAF_FD`], name of the
/// ledger, working directory (empty for the host's), path of the program (with [`GATE_FD`]: pid of
/// the server), patterns to keep, beginning of each line of the report.
pub const PARAM_COUNT: usize = 10;
pub const PROGRAM_PARAM: usize = 7;

/// The number of processes that a [`Listing`] names; its total may be larger.
pub const LISTING_MAX: usize = 64;
/// Bytes of a process name, padded with zeros.
pub const COMM_LEN: usize = 16;
/// Bytes of the longest message.
pub const MESSAGE_MAX: usize = LISTING_HEADER + LISTING_MAX * LISTING_ENTRY;

const LISTING_HEADER: usize = 10;
const LISTING_ENTRY: usize = 4 + COMM_LEN;

const STARTED: u8 = 1;
const EXEC_FAILED: u8 = 2;
const MAIN_EXITED: u8 = 3;
const GONE: u8 = 4;
const ADOPTED: u8 = 5;

/// The host's requests to the guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// SIGTERM and SIGCONT to every process of the server.
    Terminate,
    /// SIGKILL to every process of the server, until none is left.
    Kill,
    /// This signal to the process group of the server, until its own process is reaped.
    Signal(u8),
}

impl Request {
    pub const fn encode(self) -> [u8; 2] {
        match self {
            Self::Terminate => [b'T', 0],
            Self::Kill => [b'K', 0],
            Self::Signal(number) => [b'S', number],
        }
    }

    pub const fn decode(message: &[u8]) -> Option<Self> {
        match message {
            [b'T', 0] => Some(Self::Terminate),
            [b'K', 0] => Some(Self::Kill),
            [b'S', number] => Some(Self::Signal(*number)),
            _ => None,
        }
    }
}

/// The step at which a start failed, as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// The guardian could not set itself up, for a reason other than the stages below.
    Setup = 1,
    Fork,
    /// The server could not join its cgroup.
    Cgroup,
    Chdir,
    Exec,
    Namespace,
    Subreaper,
    /// The exits of children could not be waited for (`signalfd`).
    ChildExits,
    /// The server could not be tied to its guardian's life (`prctl`, PDEATHSIG).
    DeathSignal,
    /// The server could not be restricted to its rules.
    Restrict,
}

impl Stage {
    const ALL: [Self; 10] = [
        Self::Setup,
        Self::Fork,
        Self::Cgroup,
        Self::Chdir,
        Self::Exec,
        Self::Namespace,
        Self::Subreaper,
        Self::ChildExits,
        Self::DeathSignal,
        Self::Restrict,
    ];

    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&stage| stage as u8 == byte)
    }
}

/// The guardian's reports to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report<'a> {
    /// The server's program is running.
    Started {
        /// Process id of the server, for display.
        pid: u32,
    },
    /// The last message: nothing was started and nothing is left.
    ExecFailed { stage: Stage, errno: i32 },
    /// The server's own process was reaped. Others may live.
    MainExited {
        /// Wait status, as `waitpid` reports it.
        status: i32,
    },
    /// The last message: every descendant has been reaped.
    Gone {
        /// Wait status of the server's own process.
        status: i32,
        /// [`Ended::flags`](super::ending::Ended::flags).
        flags: u8,
        /// Other processes that were reaped after the guardian had begun to signal.
        swept: Listing<'a>,
    },
    /// The only message of an orphan that was asked for ([`FLAG_ORPHAN`]).
    Adopted { by: u32 },
}

impl<'a> Report<'a> {
    /// Writes the message into `buffer` and returns its length.
    pub fn encode(&self, buffer: &mut [u8; MESSAGE_MAX]) -> usize {
        let mut out = Writer { buffer, len: 0 };
        match *self {
            Self::Started { pid } => out.byte(STARTED).word(pid),
            Self::ExecFailed { stage, errno } => out
                .byte(EXEC_FAILED)
                .byte(stage as u8)
                .word(errno.cast_unsigned()),
            Self::MainExited { status } => out.byte(MAIN_EXITED).word(status.cast_unsigned()),
            Self::Gone {
                status,
                flags,
                swept,
            } => out
                .byte(GONE)
                .word(status.cast_unsigned())
                .byte(flags)
                .listing(swept),
            Self::Adopted { by } => out.byte(ADOPTED).word(by),
        };
        out.len
    }

    /// The report in `message`; `None` if it is anything else, of any length.
    pub fn decode(message: &'a [u8]) -> Option<Self> {
        let (&tag, body) = message.split_first()?;
        let (first, rest) = match tag {
            EXEC_FAILED => {
                let (&stage, errno) = body.split_first()?;
                let errno = i32::from_le_bytes(errno.try_into().ok()?);
                return Some(Self::ExecFailed {
                    stage: Stage::from_byte(stage)?,
                    errno,
                });
            }
            _ => body.split_first_chunk::<4>()?,
        };
        let first = u32::from_le_bytes(*first);
        match tag {
            STARTED if rest.is_empty() => Some(Self::Started { pid: first }),
            MAIN_EXITED if rest.is_empty() => Some(Self::MainExited {
                status: first.cast_signed(),
            }),
            ADOPTED if rest.is_empty() => Some(Self::Adopted { by: first }),
            GONE => {
                let (&flags, rest) = rest.split_first()?;
                let (total, entries) = rest.split_first_chunk::<4>()?;
                Some(Self::Gone {
                    status: first.cast_signed(),
                    flags,
                    swept: Listing::new(u32::from_le_bytes(*total), entries)?,
                })
            }
            _ => None,
        }
    }
}

/// Processes of a server, borrowed from the received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing<'a> {
    total: u32,
    entries: &'a [u8],
}

impl<'a> Listing<'a> {
    fn new(total: u32, entries: &'a [u8]) -> Option<Self> {
        let whole = entries.len().is_multiple_of(LISTING_ENTRY);
        let count = entries.len() / LISTING_ENTRY;
        (whole && count <= LISTING_MAX && count as u64 <= u64::from(total))
            .then_some(Self { total, entries })
    }

    pub const fn total(&self) -> u32 {
        self.total
    }

    /// Process ids and names, at most [`LISTING_MAX`] of them.
    pub fn processes(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        self.entries
            .as_chunks::<LISTING_ENTRY>()
            .0
            .iter()
            .filter_map(|entry| {
                let (pid, comm) = entry.split_first_chunk::<4>()?;
                let name = comm.split(|&byte| byte == 0).next()?;
                Some((u32::from_le_bytes(*pid), name))
            })
    }
}

/// Collects the entries of a [`Listing`], counting those that do not fit.
#[derive(Debug)]
pub struct ListingBuilder {
    total: u32,
    len: usize,
    entries: [u8; LISTING_MAX * LISTING_ENTRY],
}

#[expect(clippy::new_without_default, reason = "there is one")]
impl ListingBuilder {
    pub const fn new() -> Self {
        Self {
            total: 0,
            len: 0,
            entries: [0; LISTING_MAX * LISTING_ENTRY],
        }
    }

    pub fn push(&mut self, pid: u32, comm: &[u8; COMM_LEN]) {
        self.total = self.total.saturating_add(1);
        let Some(entry) = self
            .entries
            .get_mut(self.len..)
            .and_then(|free| free.first_chunk_mut::<LISTING_ENTRY>())
        else {
            return;
        };
        let (number, name) = entry.split_at_mut(4);
        number.copy_from_slice(&pid.to_le_bytes());
        name.copy_from_slice(comm);
        self.len += LISTING_ENTRY;
    }

    pub fn finish(&self) -> Listing<'_> {
        Listing {
            total: self.total,
            entries: self.entries.get(..self.len).unwrap_or_default(),
        }
    }
}

struct Writer<'b> {
    buffer: &'b mut [u8; MESSAGE_MAX],
    len: usize,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        if let Some(free) = self.buffer.get_mut(self.len..self.len + bytes.len()) {
            free.copy_from_slice(bytes);
            self.len += bytes.len();
        }
        self
    }

    fn byte(&mut self, byte: u8) -> &mut Self {
        self.bytes(&[byte])
    }

    fn word(&mut self, word: u32) -> &mut Self {
        self.bytes(&word.to_le_bytes())
    }

    fn listing(&mut self, listing: Listing<'_>) -> &mut Self {
        self.word(listing.total).bytes(listing.entries)
    }
}

// By path, because the guardian includes this file by path.
#[cfg(test)]
#[path = "protocol/tests.rs"]
mod tests;
