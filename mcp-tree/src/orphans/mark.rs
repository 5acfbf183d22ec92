//! The mark in an environment. Pure.

use super::verdict::Mark;
use crate::identity::{Cookie, VARIABLE};

/// Finds the mark in an environment, a list of zero-terminated variables.
pub(crate) fn find_mark(environment: &[u8]) -> Mark {
    let values = environment.split(|&byte| byte == 0).filter_map(|variable| {
        variable
            .strip_prefix(VARIABLE.as_bytes())?
            .strip_prefix(b"=")
    });
    let mut marks = values.map(|value| {
        let cookie = str::from_utf8(value).ok().and_then(Cookie::parse);
        cookie.map_or(Mark::Unreadable, Mark::Cookie)
    });
    let first = marks.next().unwrap_or(Mark::None);
    // If two differ, it is unknown which of them is wrong.
    match marks.all(|mark| mark == first) {
        true => first,
        false => Mark::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "5.6.01234567-89ab-cdef-0123-456789abcdef.00000000000000070000000000000008";

    fn mark_in(environment: &str) -> Mark {
        find_mark(environment.replace("GOOD", GOOD).as_bytes())
    }

    #[test]
    fn a_mark_is_a_whole_variable() {
        let good = Mark::Cookie(Cookie::parse(GOOD).unwrap());
        assert_eq!(mark_in("A=1\0MCP_LIFECYCLE_ID=GOOD\0B=2\0"), good);
        assert_eq!(
            mark_in("MCP_LIFECYCLE_ID=GOOD\0MCP_LIFECYCLE_ID=GOOD\0"),
            good
        );
        assert_eq!(mark_in("XMCP_LIFECYCLE_ID=GOOD\0"), Mark::None);
        assert_eq!(mark_in("A=MCP_LIFECYCLE_ID=GOOD\0"), Mark::None);
        assert_eq!(mark_in(""), Mark::None);
    }

    #[test]
    fn a_mark_that_is_empty_cut_or_contradicted_is_unreadable() {
        for environment in [
            "MCP_LIFECYCLE_ID=\0",
            "MCP_LIFECYCLE_ID=5.6.0123",
            "MCP_LIFECYCLE_ID=GOOD0\0",
            "MCP_LIFECYCLE_ID=GOOD\0MCP_LIFECYCLE_ID=\0",
        ] {
            assert_eq!(mark_in(environment), Mark::Unreadable, "{environment}");
        }
    }
}
