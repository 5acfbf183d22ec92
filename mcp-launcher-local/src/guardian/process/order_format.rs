//! The order to a spare guardian, as it is sent: `Order` is what it says.
//!
//! Compiled into both sides, as `protocol.rs` is.

/// Bytes of the longest order to a spare guardian.
pub const ORDER_MAX: usize = 128 * 1024;
/// The number of strings that an order has at most: arguments and environment.
pub const ORDER_STRINGS_MAX: usize = 4096;
/// Descriptors that come with an order: standard input, output and error, and the directory that the server starts in.
pub const ORDER_FDS_MAX: usize = 4;
/// Bytes of an [`OrderHeader`].
pub const ORDER_HEADER: usize = 16;

/// The beginning of an order: what a spare guardian is to start.
///
/// After it, each terminated by a zero: the working directory (empty to stay in the one that was passed), the path of the program, the
/// arguments, the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderHeader {
    /// The posthumous grace in milliseconds.
    pub grace: u32,
    /// The number of arguments, the name that the program is called by included.
    pub args: u32,
    /// The number of variables.
    pub env: u32,
}

impl OrderHeader {
    /// The bytes of it.
    #[must_use]
    pub fn encode(self) -> [u8; ORDER_HEADER] {
        let mut bytes = [0; ORDER_HEADER];
        bytes[0] = b'L';
        for (place, number) in [(4, self.grace), (8, self.args), (12, self.env)] {
            bytes[place..place + 4].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// The header that `message` begins with, if it is an order.
    #[must_use]
    pub fn decode(message: &[u8]) -> Option<Self> {
        let header: &[u8; ORDER_HEADER] = message.first_chunk()?;
        let [b'L', 0, 0, 0, a, b, c, d, e, f, g, h, i, j, k, l] = *header else {
            return None;
        };
        Some(Self {
            grace: u32::from_le_bytes([a, b, c, d]),
            args: u32::from_le_bytes([e, f, g, h]),
            env: u32::from_le_bytes([i, j, k, l]),
        })
    }
}
