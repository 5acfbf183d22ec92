//! A guardian's record of how a server has ended: half a record in the ring of ended servers.
//! Compiled into both programs: it uses `core` alone.

use super::text::Line;

/// Bytes of a record.
pub const RECORD_LEN: usize = 2 * HEAD_LEN;
/// Bytes of its first half, which is written at the start and names the server.
pub const HEAD_LEN: usize = 64;

const ENDED: u8 = 1;
const NOT_STARTED: u8 = 2;

/// SIGTERM was sent to all of its processes: this and the next are [`Ended::flags`].
pub const ASKED: u8 = 1;
/// SIGKILL was sent to all of its processes.
pub const FORCED: u8 = 2;
/// Its host had ended, or had killed the shim.
pub const HOST_GONE: u8 = 4;
/// Its cgroup could not be emptied, or its companion did not end its containers.
pub const UNPROVEN: u8 = 8;
/// The kernel has killed it for exceeding its memory limit.
pub const OUT_OF_MEMORY: u8 = 16;
/// Its cgroup was empty.
pub const CGROUP_EMPTY: u8 = 32;
/// Its companion has left no container.
pub const CONTAINERS_ABSENT: u8 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    NotStarted,
    Ended(Ended),
}

/// The end of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub flags: u8,
    /// The wait status of its main process.
    pub status: i32,
    /// The number of other processes that had to be ended.
    pub swept: u32,
    /// Time at which nothing of it was left, in milliseconds since 1970.
    pub at: u64,
    /// Milliseconds from the first signal to its end.
    pub took: u32,
}

impl Ended {
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the exit code of its main process, if that has exited.
    pub fn code(&self) -> Option<i32> {
        self.signal().is_none().then_some((self.status >> 8) & 0xff)
    }

    /// Returns the signal that has ended its main process, if one has.
    pub fn signal(&self) -> Option<i32> {
        Some(self.status & 0x7f).filter(|signal| *signal != 0)
    }

    /// Returns how it ended, in one word.
    pub fn how(&self) -> &'static str {
        match () {
            () if self.has(UNPROVEN) => "unproven",
            () if self.has(FORCED | OUT_OF_MEMORY) => "killed",
            () if self.has(ASKED) => "asked",
            () => "itself",
        }
    }

    /// Appends it to a line of JSON: the form of it that every program shows.
    pub fn describe(&self, line: &mut Line) {
        let evidence = [
            ("reaped", true),
            ("cgroup_empty", self.has(CGROUP_EMPTY)),
            ("containers_absent", self.has(CONTAINERS_ABSENT)),
        ];
        let is_proven = !self.has(UNPROVEN);
        let evidence = evidence
            .iter()
            .filter(|(_, is_given)| *is_given && is_proven);
        line.key("how").string(self.how().as_bytes());
        line.key("ended").milliseconds(self.at);
        for (key, flag) in [
            ("asked", ASKED),
            ("forced", FORCED),
            ("host_gone", HOST_GONE),
            ("out_of_memory", OUT_OF_MEMORY),
        ] {
            line.key(key)
                .then(if self.has(flag) { "true" } else { "false" });
        }
        for (key, number) in [("code", self.code()), ("signal", self.signal())] {
            match number {
                Some(number) => line.key(key).number(number.unsigned_abs().into()),
                None => line.key(key).then("null"),
            };
        }
        line.key("swept").number(self.swept.into());
        line.key("seconds").milliseconds(self.took.into());
        line.key("evidence")
            .list(evidence.map(|(name, _)| name.as_bytes()));
    }
}

impl Ending {
    pub fn encode(self) -> [u8; HEAD_LEN] {
        let mut bytes = [0; HEAD_LEN];
        let Self::Ended(ended) = self else {
            bytes[0] = NOT_STARTED;
            return bytes;
        };
        bytes[0] = ENDED;
        bytes[1] = ended.flags;
        bytes[4..8].copy_from_slice(&ended.status.to_le_bytes());
        bytes[8..12].copy_from_slice(&ended.swept.to_le_bytes());
        bytes[12..16].copy_from_slice(&ended.took.to_le_bytes());
        bytes[16..24].copy_from_slice(&ended.at.to_le_bytes());
        bytes
    }

    /// Decodes the half record; `None` if it is not written.
    pub fn decode(bytes: &[u8; HEAD_LEN]) -> Option<Self> {
        let [kind, flags, _, _, a, b, c, d, e, f, g, h, i, j, k, l, ..] = *bytes;
        let mut at = [0; 8];
        at.copy_from_slice(&bytes[16..24]);
        match kind {
            NOT_STARTED => Some(Self::NotStarted),
            ENDED => Some(Self::Ended(Ended {
                flags,
                status: i32::from_le_bytes([a, b, c, d]),
                swept: u32::from_le_bytes([e, f, g, h]),
                took: u32::from_le_bytes([i, j, k, l]),
                at: u64::from_le_bytes(at),
            })),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let ended = Ended {
            flags: ASKED | HOST_GONE | OUT_OF_MEMORY | CGROUP_EMPTY,
            status: 0x0f00,
            swept: 7,
            at: 1_700_000_000_123,
            took: 2_001,
        };
        for ending in [Ending::NotStarted, Ending::Ended(ended)] {
            assert_eq!(Ending::decode(&ending.encode()), Some(ending));
        }
        assert_eq!(Ending::decode(&[0; HEAD_LEN]), None);
        assert_eq!(Ending::decode(&[0xff; HEAD_LEN]), None);
    }
}
