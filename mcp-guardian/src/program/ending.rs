//! A guardian's record of how a server has ended: half a record in the ring of ended servers.
//! Compiled into both programs: it uses `core` alone.

/// Bytes of a record.
pub const RECORD_LEN: usize = 2 * HEAD_LEN;
/// Bytes of its first half, which is written at the start and names the server.
pub const HEAD_LEN: usize = 64;

const ENDED: u8 = 1;
const NOT_STARTED: u8 = 2;

const ASKED: u8 = 1;
const FORCED: u8 = 2;
const HOST_GONE: u8 = 4;
const UNPROVEN: u8 = 8;
const OUT_OF_MEMORY: u8 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    NotStarted,
    Ended(Ended),
}

/// The end of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// SIGTERM was sent to all of its processes.
    pub asked: bool,
    /// SIGKILL was sent to all of its processes.
    pub forced: bool,
    /// Its host had ended, or had killed the shim.
    pub host_gone: bool,
    /// Its cgroup could not be emptied.
    pub unproven: bool,
    /// The kernel has killed it for exceeding its memory limit.
    pub out_of_memory: bool,
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
    /// Returns the exit code of its main process, if that has exited.
    pub fn code(&self) -> Option<i32> {
        self.signal().is_none().then_some((self.status >> 8) & 0xff)
    }

    /// Returns the signal that has ended its main process, if one has.
    pub fn signal(&self) -> Option<i32> {
        Some(self.status & 0x7f).filter(|signal| *signal != 0)
    }
}

impl Ending {
    pub fn encode(self) -> [u8; HEAD_LEN] {
        let mut bytes = [0; HEAD_LEN];
        let Self::Ended(ended) = self else {
            bytes[0] = NOT_STARTED;
            return bytes;
        };
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        bytes[0] = ENDED;
        bytes[1] = flag(ended.asked, ASKED)
            | flag(ended.forced, FORCED)
            | flag(ended.host_gone, HOST_GONE)
            | flag(ended.unproven, UNPROVEN)
            | flag(ended.out_of_memory, OUT_OF_MEMORY);
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
                asked: flags & ASKED != 0,
                forced: flags & FORCED != 0,
                host_gone: flags & HOST_GONE != 0,
                unproven: flags & UNPROVEN != 0,
                out_of_memory: flags & OUT_OF_MEMORY != 0,
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
            asked: true,
            forced: false,
            host_gone: true,
            unproven: false,
            out_of_memory: true,
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
