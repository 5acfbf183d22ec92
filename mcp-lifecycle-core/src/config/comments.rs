//! JSON as people write it: with comments and trailing commas.

/// Blanks out comments and trailing commas. Every byte keeps its place, so that
/// positions in what is left are positions in the file.
pub(super) fn blank(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    // Where a comma was, if nothing but blanks has come since.
    let mut comma = None;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => {
                at = end_of_string(&bytes, at);
                comma = None;
                continue;
            }
            (b'/', Some(b'/')) => {
                let end = find(&bytes, at, b"\n").unwrap_or(bytes.len());
                bytes[at..end].fill(b' ');
                at = end;
                continue;
            }
            (b'/', Some(b'*')) => {
                let end = find(&bytes, at + 2, b"*/").map_or(bytes.len(), |end| end + 2);
                for byte in &mut bytes[at..end] {
                    if *byte != b'\n' {
                        *byte = b' ';
                    }
                }
                at = end;
                continue;
            }
            (b',', _) => comma = Some(at),
            (b'}' | b']', _) => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
            }
            (byte, _) if !byte.is_ascii_whitespace() => comma = None,
            _ => {}
        }
        at += 1;
    }
    // Only whole comments were replaced, by ASCII.
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// The place after the string that begins here.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let rest = bytes.get(from..)?;
    Some(from + rest.windows(what.len()).position(|window| window == what)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_become_blanks_in_place() {
        let text = "{ // é\n \"a\": [1, /* , ] */], \"b\": \"// no, }\" , \n}";
        let blanked = blank(text);
        assert_eq!(blanked.len(), text.len());
        let value: serde_json::Value = serde_json::from_str(&blanked).unwrap();
        assert_eq!(value, serde_json::json!({"a": [1], "b": "// no, }"}));
    }

    #[test]
    fn what_does_not_end_is_left_to_the_parser() {
        for text in ["\"abc", "\"abc\\", "/*", "/", "{,"] {
            assert_eq!(blank(text).len(), text.len(), "{text}");
        }
    }
}
