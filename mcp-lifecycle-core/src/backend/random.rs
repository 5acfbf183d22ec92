//! Random unique names.

use std::io;

/// Returns 128 random bits as 32 hexadecimal digits.
pub fn id() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
