//! Readable sizes. Pure.

const LEAST: u64 = 1 << 20;

/// Parses bytes, with K, M, G or T as powers of 1024. `MB` and `MiB` mean `M`.
pub(super) fn parse(text: &str) -> Result<u64, &'static str> {
    const HOW: &str = "a size is a whole number with K, M, G or T after it, such as 512M";
    match mcp_lifecycle_core::size::parse(text).ok_or(HOW)? {
        ..LEAST => Err("no server starts with less than 1M"),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_numbers_with_a_unit_of_1024() {
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("512mb"), Ok(512 << 20));
        assert_eq!(parse("2GiB"), Ok(2 << 30));
        assert_eq!(parse("1t"), Ok(1 << 40));
        assert_eq!(parse("2048k"), Ok(2 << 20));
        assert_eq!(parse("1048576"), Ok(1 << 20));
        assert_eq!(parse("1048576B"), Ok(1 << 20));
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "M",
            "-1M",
            "1.5G",
            "1 G",
            "512X",
            "512MM",
            "0",
            "10",
            "1023K",
            "99999999999999999999",
            "99999999T",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
