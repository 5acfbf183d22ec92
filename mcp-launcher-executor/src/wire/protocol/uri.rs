//! Working directories in both dialects: `file:` URIs and plain paths.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// All bytes but those that stand for themselves in a path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_');

pub fn path_to_uri(path: &str) -> String {
    format!("file://{}", utf8_percent_encode(path, ESCAPED))
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
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    decoded.starts_with('/').then(|| decoded.into_owned())
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
            "file:///%ff",
            "file://",
            "http://x/",
        ] {
            assert_eq!(path_from_wire(bad), None, "{bad}");
        }
    }
}
