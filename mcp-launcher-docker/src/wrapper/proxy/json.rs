//! JSON as the daemon reads it. Pure.
//!
//! Go replaces an invalid UTF-8 byte and a lone surrogate escape by U+FFFD. Clients rely on it:
//! Python writes a variable that is not UTF-8 as `\udce9`.

/// Decodes a body like the daemon.
pub(super) fn read(body: &[u8]) -> String {
    let mut text = String::with_capacity(body.len());
    for chunk in body.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '\u{fffd}'));
    }
    if memchr::memmem::find(text.as_bytes(), br"\u").is_some() {
        text = without_lone_surrogates(&text);
    }
    text
}

/// Replaces lone surrogates. A backslash occurs only in strings.
fn without_lone_surrogates(text: &str) -> String {
    let mut new = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        new.push_str(before);
        let length = match unit(escape) {
            Some(0xD800..=0xDBFF) if is_low(escape.get(6..).unwrap_or_default()) => 12,
            Some(0xD800..=0xDFFF) => {
                new.push_str(r"\ufffd");
                rest = &escape[6..];
                continue;
            }
            Some(_) => 6,
            None => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        let (escape, after) = escape.split_at(length);
        new.push_str(escape);
        rest = after;
    }
    new.push_str(rest);
    new
}

fn is_low(escape: &str) -> bool {
    matches!(unit(escape), Some(0xDC00..=0xDFFF))
}

/// Decodes the `\uXXXX` at the beginning.
fn unit(escape: &str) -> Option<u16> {
    let digits = escape.strip_prefix(r"\u")?.get(..4)?;
    let all = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| all)
}

/// Compares a key with a field's name like Go: ignoring case, including the two non-ASCII letters
/// that fold to ASCII.
pub(super) fn is_key(key: &str, name: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars().map(fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_unicode_is_replaced() {
        let cases: [(&[u8], &str); 8] = [
            (
                br#"["plain \u0041 \\u0041 \n"]"#,
                r#"["plain \u0041 \\u0041 \n"]"#,
            ),
            (br#"["\udce9"]"#, r#"["\ufffd"]"#),
            (br#"["\ud83d\ude00"]"#, r#"["\ud83d\ude00"]"#),
            (br#"["\ud83d\ud83d\ude00"]"#, r#"["\ufffd\ud83d\ude00"]"#),
            (br#"["\ud83d"#, r#"["\ufffd"#),
            (br#"["\\\udce9"]"#, r#"["\\\ufffd"]"#),
            (b"[\"caf\xe9\xff\"]", "[\"caf\u{fffd}\u{fffd}\"]"),
            (br"\u00", r"\u00"),
        ];
        for (body, expected) in cases {
            assert_eq!(read(body), expected);
        }
    }

    #[test]
    fn keys_fold_as_in_go() {
        assert!(is_key("Labels", "Labels"));
        assert!(is_key("lABELS", "Labels"));
        assert!(is_key("Label\u{17f}", "Labels"));
        assert!(is_key("Networ\u{212a}", "Network"));
        assert!(!is_key("Labelß", "Labels"));
    }
}
