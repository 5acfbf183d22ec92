//! Short times and sizes. Pure.

use std::time::Duration;

pub(crate) use super::text::count;

/// Formats `850ms`, `12s`, `3m`, `5h`, `12d`: in the largest unit with a whole number.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{}ms", time.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// Formats `812 kB`, `45 MB`, `4.1 GB`, by thousands.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes / 1000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{}.{} GB", bytes / 1_000_000_000, bytes / 100_000_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_characters_each() {
        let times =
            [0, 850, 12_345, 3_599_000, 3_600_000, 86_400_000 * 12].map(Duration::from_millis);
        assert_eq!(times.map(time), ["0ms", "850ms", "12s", "59m", "1h", "12d"]);
        let sizes = [0, 999_999, 1_000_000, 45_600_000, 4_150_000_000];
        assert_eq!(
            sizes.map(size),
            ["0 kB", "999 kB", "1 MB", "45 MB", "4.1 GB"]
        );
    }
}
