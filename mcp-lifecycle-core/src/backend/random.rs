//! Random unique names.

use std::fmt::Write;
use std::io;

/// Returns 128 random bits as 32 hexadecimal digits.
///
/// # Errors
///
/// When the system has no randomness to give.
pub fn id() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    let mut text = String::with_capacity(32);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
