//! Working directories in both dialects: `file:` URIs and plain paths.

pub fn path_to_uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len() + 8);
    uri.push_str("file://");
    for &byte in path.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) {
            uri.push(byte as char);
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

/// The path in a `file:` URI, or the path itself. `None` when it is neither an
/// absolute path nor a `file:` URI of this machine, or is not UTF-8.
pub fn path_from_wire(text: &str) -> Option<String> {
    let Some(rest) = text.strip_prefix("file:") else {
        return text.starts_with('/').then(|| text.to_owned());
    };
    let path = match rest.strip_prefix("//") {
        Some(authority) => {
            let slash = authority.find('/')?;
            let (host, path) = authority.split_at(slash);
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return None;
            }
            path
        }
        None => rest,
    };
    let decoded = percent_decode(path)?;
    decoded.starts_with('/').then_some(decoded)
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, tail @ ..] = tail else {
            return None;
        };
        let digit = |byte: u8| (byte as char).to_digit(16);
        bytes.push((digit(*high)? * 16 + digit(*low)?) as u8);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_the_round_trip() {
        for path in ["/", "/srv/a b", "/ü/100%", "/a?b#c"] {
            let uri = path_to_uri(path);
            assert!(uri.is_ascii() && !uri.contains([' ', '?', '#']), "{uri}");
            assert_eq!(path_from_wire(&uri).as_deref(), Some(path));
        }
    }

    #[test]
    fn both_dialects_are_read_and_nonsense_is_not() {
        assert_eq!(path_from_wire("/srv").as_deref(), Some("/srv"));
        assert_eq!(path_from_wire("file:/srv").as_deref(), Some("/srv"));
        assert_eq!(
            path_from_wire("file://localhost/srv").as_deref(),
            Some("/srv")
        );
        for bad in [
            "",
            "srv",
            "file://other/srv",
            "file:///%zz",
            "file:///%f",
            "file://",
            "http://x/",
        ] {
            assert_eq!(path_from_wire(bad), None, "{bad}");
        }
    }
}
