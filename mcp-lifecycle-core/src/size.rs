//! Readable byte sizes. By hand: `512m` is in powers of 1000 for `bytesize`, and in powers of 1024
//! for engines.

/// Parses bytes, with K, M, G or T as powers of 1024. `MB` and `MiB` mean `M`.
pub fn parse(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let size = lower.strip_suffix("ib").or(lower.strip_suffix('b'));
    let size = size.unwrap_or(&lower);
    let number = size.trim_end_matches(char::is_alphabetic);
    let power = match &size[number.len()..] {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024() {
        assert_eq!(parse("10"), Some(10));
        assert_eq!(parse("512m"), Some(512 << 20));
        assert_eq!(parse("2GiB"), Some(2 << 30));
        assert_eq!(parse("1t"), Some(1 << 40));
        for wrong in ["m", "1x", "99999999999g"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
