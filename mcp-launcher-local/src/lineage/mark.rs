//! The mark in what macOS tells of a process's start (`KERN_PROCARGS2`).

use super::Witness;
use super::reap::Said;
use crate::orphans::mark::find_mark;
use crate::orphans::verdict::Mark;
use crate::sys::lifeline;

/// The witness of these bytes: the number of arguments, the path of the program, zeroes, the arguments, the
/// environment, each of them ended by a zero. Of programs that the system protects the environment is left out.
pub(crate) fn witness(told: &[u8], variable: &str) -> Witness {
    match split(told) {
        None => Witness::Hidden,
        Some((_, environment)) => {
            let mut variables = environment.split(|byte| *byte == 0);
            match variables.any(|found| found == variable.as_bytes()) {
                true => Witness::Ours,
                false => Witness::Other,
            }
        }
    }
}

/// What a process says about whose it is. One without an environment has none that is told.
pub(crate) fn said(told: &[u8]) -> Said {
    let unseen = |why: &str| Mark::Unseen(why.to_owned());
    let Some((arguments, environment)) = split(told) else {
        return Said {
            mark: unseen("what the system tells of its start is cut short"),
            is_watcher: false,
        };
    };
    let last = arguments
        .strip_suffix(b"\0")
        .and_then(|arguments| arguments.rsplit(|byte| *byte == 0).next());
    Said {
        mark: match environment.iter().all(|byte| *byte == 0) {
            true => unseen("the system does not tell its environment"),
            false => find_mark(environment),
        },
        is_watcher: last == Some(lifeline::NAME.as_bytes()),
    }
}

/// The arguments, each ended by a zero, and the environment.
fn split(told: &[u8]) -> Option<(&[u8], &[u8])> {
    let (count, rest) = told.split_first_chunk()?;
    let count = usize::try_from(i32::from_ne_bytes(*count)).ok()?;
    let path = rest.iter().position(|byte| *byte == 0)?;
    let padding = rest.get(path..)?.iter().position(|byte| *byte != 0);
    let rest = match padding {
        Some(padding) => rest.get(path + padding..)?,
        // Nothing follows, of one without arguments.
        None if count == 0 => &[],
        None => return None,
    };
    let mut length = 0;
    for _ in 0..count {
        length += 1 + rest.get(length..)?.iter().position(|byte| *byte == 0)?;
    }
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::identity::{Cookie, VARIABLE as VARIABLE_NAME};

    const VARIABLE: &str = "MCP_LIFECYCLE_ID=42";

    fn told(count: i32, rest: &[u8]) -> Vec<u8> {
        [&count.to_ne_bytes()[..], rest].concat()
    }

    #[test]
    fn the_mark_is_looked_for_in_the_environment_alone() {
        for (count, rest, found) in [
            (
                2,
                &b"/bin/a\0\0\0a\0-x\0PATH=/\0MCP_LIFECYCLE_ID=42\0"[..],
                Witness::Ours,
            ),
            (1, b"/bin/a\0a\0MCP_LIFECYCLE_ID=42\0", Witness::Ours),
            // An argument, another server's, a longer one, one that is only a part of another.
            (
                2,
                b"/bin/a\0a\0MCP_LIFECYCLE_ID=42\0PATH=/\0",
                Witness::Other,
            ),
            (1, b"/bin/a\0a\0MCP_LIFECYCLE_ID=43\0", Witness::Other),
            (1, b"/bin/a\0a\0MCP_LIFECYCLE_ID=421\0", Witness::Other),
            (1, b"/bin/a\0a\0X=MCP_LIFECYCLE_ID=42\0", Witness::Other),
            (1, b"/bin/a\0a\0", Witness::Other),
        ] {
            assert_eq!(witness(&told(count, rest), VARIABLE), found, "{rest:?}");
        }
    }

    #[test]
    fn what_is_cut_short_is_no_witness() {
        let whole = told(2, b"/bin/a\0\0a\0-x\0");
        for length in 0..whole.len() - 1 {
            assert_eq!(
                witness(&whole[..length], VARIABLE),
                Witness::Hidden,
                "{length}"
            );
        }
        assert_eq!(
            witness(&told(-1, b"/bin/a\0a\0"), VARIABLE),
            Witness::Hidden
        );
    }

    const GOOD: &str = "5.6.01234567-89ab-cdef-0123-456789abcdef.00000000000000070000000000000008";

    #[test]
    fn whose_a_process_is_is_read_in_its_environment() {
        let good = Mark::Cookie(Cookie::parse(GOOD).unwrap());
        for (count, rest, mark) in [
            (
                1,
                "/bin/a\0\0\0a\0A=1\0MCP_LIFECYCLE_ID=GOOD\0B=2\0",
                good.clone(),
            ),
            (2, "/bin/a\0a\0MCP_LIFECYCLE_ID=GOOD\0B=2\0", Mark::None),
            (1, "/bin/a\0a\0MCP_LIFECYCLE_ID=\0", Mark::Unreadable),
            (
                1,
                "/bin/a\0a\0MCP_LIFECYCLE_ID=GOOD\0MCP_LIFECYCLE_ID=5.6\0",
                Mark::Unreadable,
            ),
            // The end of a mark that is cut off is not made up.
            (
                1,
                "/bin/a\0a\0MCP_LIFECYCLE_ID=5.6.01234567-89ab-cdef-0123-456789abcdef.0000",
                Mark::Unreadable,
            ),
        ] {
            let rest = rest.replace("GOOD", GOOD);
            assert_eq!(said(&told(count, rest.as_bytes())).mark, mark, "{rest:?}");
        }
    }

    #[test]
    fn what_is_not_told_is_not_absent() {
        let hidden = |count, rest: &[u8]| matches!(said(&told(count, rest)).mark, Mark::Unseen(_));
        assert!(hidden(2, b"/bin/a\0\0a\0-x\0"));
        assert!(hidden(1, b"/bin/a\0a\0\0\0"));
        assert!(hidden(0, b"/bin/a\0\0"));
        // More arguments than there is room for, or fewer than none.
        assert!(hidden(3, b"/bin/a\0a\0A=1\0"));
        assert!(hidden(i32::MAX, b"/bin/a\0a\0A=1\0"));
        assert!(hidden(-1, b"/bin/a\0a\0A=1\0"));
        assert!(hidden(1, b""));
        assert!(hidden(1, b"/bin/a"));
        assert!(matches!(said(&[1, 0]).mark, Mark::Unseen(_)));
        assert!(matches!(said(&[]).mark, Mark::Unseen(_)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), count in -2..9i32) {
            let _ = said(&bytes);
            let _ = said(&told(count, &bytes));
        }

        #[test]
        fn half_of_it_names_no_other_host(keep in 0usize..200) {
            let whole = told(2, format!("/bin/a\0a\0-x\0A=1\0{VARIABLE_NAME}={GOOD}\0B=2\0").as_bytes());
            let part = &whole[..keep.min(whole.len())];
            if let Mark::Cookie(cookie) = said(part).mark {
                prop_assert_eq!(cookie, Cookie::parse(GOOD).unwrap());
            }
        }
    }

    #[test]
    fn the_watcher_of_a_host_is_known_by_its_arguments() {
        let is_watcher = |count, rest: &[u8]| said(&told(count, rest)).is_watcher;
        assert!(is_watcher(
            4,
            b"/bin/sh\0/bin/sh\0-c\0\ntrap\n\0mcp-lifeline\0"
        ));
        assert!(is_watcher(2, b"/bin/sh\0/bin/sh\0mcp-lifeline\0A=1\0"));
        assert!(!is_watcher(1, b"/bin/sh\0/bin/sh\0mcp-lifeline\0"));
        assert!(!is_watcher(2, b"/bin/sh\0/bin/sh\0xmcp-lifeline\0"));
        assert!(!is_watcher(0, b"/bin/sh\0\0"));
    }
}
