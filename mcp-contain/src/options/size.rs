//! Readable sizes. Pure.

const LEAST: u64 = 1 << 20;

/// Parses bytes, with K, M, G or T as powers of 1024. `MB` and `MiB` mean `M`.
pub(super) fn parse(text: &str) -> Result<u64, &'static str> {
    const HOW: &str = "a size is a whole number with K, M, G or T after it, such as 512M";
    let upper = text.to_ascii_uppercase();
    let size = upper.strip_suffix("IB").or(upper.strip_suffix('B'));
    let size = size.unwrap_or(&upper);
    let unit = size.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = size.split_at(unit.unwrap_or(size.len()));
    let power = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(HOW),
    };
    let number: u64 = number.parse().map_err(|_| HOW)?;
    let bytes = number.checked_mul(1 << power);
    let bytes = bytes.ok_or("more than any machine has")?;
    (bytes >= LEAST)
        .then_some(bytes)
        .ok_or("no server starts with less than 1M")
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
