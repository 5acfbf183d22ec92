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
