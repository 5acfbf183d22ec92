//! Sizes as people write them. Pure.

/// Less than any server needs to begin.
const LEAST: u64 = 1 << 20;

/// Bytes: a number, with K, M, G or T for as many times 1024 as in `docker run --memory` and systemd. `MB` and `MiB` mean the same as `M`.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = unit.to_ascii_uppercase();
    let power = match unit
        .strip_suffix("IB")
        .or(unit.strip_suffix('B'))
        .unwrap_or(&unit)
    {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => {
            return Err(
                "a size is a whole number with K, M, G or T after it, such as 512M".to_owned(),
            );
        }
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "a size begins with a whole number, such as 512M".to_owned())?;
    let bytes = number
        .checked_mul(1 << power)
        .ok_or("more than any machine has")?;
    match bytes < LEAST {
        true => Err("no server starts with less than 1M".to_owned()),
        false => Ok(bytes),
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
