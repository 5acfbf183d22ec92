//! Identities as text. Pure.

#[cfg(target_os = "linux")]
use std::ffi::CString;
use std::fmt;

#[cfg(target_os = "linux")]
use super::VARIABLE;

/// One host: a process of one boot of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId {
    pid: u32,
    start_time: u64,
    boot_id: String,
    nonce: u64,
}

/// One server of one host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cookie {
    host: HostId,
    serial: u64,
}

const HALF: usize = 16;

impl HostId {
    /// Creates one; `None` for impossible values: pid 0, an invalid boot id.
    pub fn new(pid: u32, start_time: u64, boot_id: &str, nonce: u64) -> Option<Self> {
        let is_boot_id = boot_id.len() == 36
            && boot_id
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
        (pid > 0 && is_boot_id).then(|| Self {
            pid,
            start_time,
            boot_id: boot_id.to_owned(),
            nonce,
        })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn start_time(&self) -> u64 {
        self.start_time
    }

    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    pub fn nonce(&self) -> u64 {
        self.nonce
    }
}

impl Cookie {
    pub fn new(host: HostId, serial: u64) -> Self {
        Self { host, serial }
    }

    pub fn host(&self) -> &HostId {
        &self.host
    }

    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns the random part, 128 bits: half the host's, half the server's.
    pub fn token(&self) -> String {
        format!("{:016x}{:016x}", self.host.nonce, self.serial)
    }

    /// Returns the environment variable with this identity, as `NAME=value`.
    #[cfg(target_os = "linux")]
    pub fn variable(&self) -> CString {
        // There is no zero in either.
        CString::new(format!("{VARIABLE}={self}")).unwrap_or_default()
    }

    /// Parses the output of [`Display`](fmt::Display), and nothing else: an empty or shortened
    /// cookie would match other processes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let pid = decimal(parts.next()?)?;
        let start_time = decimal(parts.next()?)?;
        let boot_id = parts.next()?;
        let token = parts.next()?;
        if parts.next().is_some() {
            return None;
        }
        let (nonce, serial) = token.split_at_checked(HALF)?;
        let host = HostId::new(u32::try_from(pid).ok()?, start_time, boot_id, hex(nonce)?)?;
        Some(Self::new(host, hex(serial)?))
    }
}

impl fmt::Display for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        let (pid, start_time, boot_id) = (host.pid, host.start_time, &host.boot_id);
        write!(f, "{pid}.{start_time}.{boot_id}.{}", self.token())
    }
}

/// Parses a number as it is written: `parse` alone would take a sign, and zeros before it.
pub fn decimal(text: &str) -> Option<u64> {
    let is_written = text == "0" || !text.starts_with(['0', '+']);
    is_written.then(|| text.parse().ok())?
}

/// Parses sixteen lower-case hexadecimal digits.
pub fn hex(text: &str) -> Option<u64> {
    let digits = text.len() == HALF
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    digits.then(|| u64::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: &str = "01234567-89ab-cdef-0123-456789abcdef";

    #[test]
    fn a_cookie_is_read_as_it_is_written() {
        let host = HostId::new(42, 98765, BOOT, 7).unwrap();
        let cookie = Cookie::new(host, u64::MAX);
        let text = cookie.to_string();
        assert_eq!(
            text,
            format!("42.98765.{BOOT}.0000000000000007ffffffffffffffff")
        );
        assert_eq!(Cookie::parse(&text), Some(cookie));
    }

    #[test]
    fn anything_else_is_nobody() {
        let token = "0000000000000007ffffffffffffffff";
        for text in [
            String::new(),
            "...".to_owned(),
            format!("0.1.{BOOT}.{token}"),
            format!("+1.1.{BOOT}.{token}"),
            format!("01.1.{BOOT}.{token}"),
            format!("1.00.{BOOT}.{token}"),
            format!("-1.1.{BOOT}.{token}"),
            format!("1.1.{BOOT}."),
            format!("1.1.{BOOT}.{token}0"),
            format!("1.1.{BOOT}.{token}.1"),
            format!("1.1..{token}"),
            format!("1.1.{BOOT}.{}", token.to_uppercase()),
            format!("4294967296.1.{BOOT}.{token}"),
            format!("1.1.{BOOT}.0000000000000é7ffffffffffffffff"),
        ] {
            assert_eq!(Cookie::parse(&text), None, "{text:?}");
        }
    }
}
