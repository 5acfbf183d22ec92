//! Numbers by chance, which a seed repeats.

use std::time::{SystemTime, UNIX_EPOCH};

/// A sequence of numbers (xorshift).
#[derive(Debug)]
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    /// One of the seed in `MCP_CONTAIN_SEED`, or of another one; it is printed.
    pub(crate) fn new() -> Self {
        let given = std::env::var("MCP_CONTAIN_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let seed: u64 = given.unwrap_or(u64::from(now.subsec_nanos()));
        println!("MCP_CONTAIN_SEED={seed}");
        Self { state: seed | 1 }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }

    /// Bytes that are all different enough.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    /// Lines of all lengths and bytes, of which the first is not blank.
    pub(crate) fn lines(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + (1 << 18));
        bytes.push(b'x');
        while bytes.len() < len {
            let number = self.next();
            match number % 1000 {
                0 => bytes.resize(bytes.len() + usize::try_from(number >> 46).unwrap(), b'{'),
                1..8 => bytes.push(b'\n'),
                _ => bytes.extend(number.to_le_bytes()),
            }
        }
        bytes
    }
}
