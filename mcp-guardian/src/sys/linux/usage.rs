//! Memory and processor time that a process uses.

use std::time::Duration;

use super::proc;

/// `USER_HZ`, which is the same on every architecture that Rust supports.
pub(super) const TICKS: u64 = 100;

/// Converts clock ticks to a time.
pub fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(1000 / TICKS))
}

/// Returns the memory of a process in bytes; shared pages count in part (PSS).
pub fn memory_of(pid: u32) -> Option<u64> {
    let text = proc::text_of_process(pid, "smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::super::see;
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let own = std::process::id();
        assert!(memory_of(own).unwrap() > 100_000);
        let begun = see(own).unwrap().cpu;
        let mut sum = 0_u64;
        while see(own).unwrap().cpu < begun + Duration::from_millis(20) {
            sum = (0..100_000).fold(sum, |sum, number| sum.wrapping_mul(31) ^ number);
        }
        std::hint::black_box(sum);
        assert_eq!((memory_of(u32::MAX), see(u32::MAX)), (None, None));
    }
}
