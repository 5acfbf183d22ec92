//! The mark in what macOS tells of a process's start (`KERN_PROCARGS2`).

use super::Witness;

/// The witness of these bytes: the number of arguments, the path of the program, zeroes, the arguments, the
/// environment, each of them ended by a zero. Of programs that the system protects the environment is left out.
pub(crate) fn witness(told: &[u8], variable: &str) -> Witness {
    match environment(told) {
        None => Witness::Hidden,
        Some(environment) => {
            let mut variables = environment.split(|byte| *byte == 0);
            match variables.any(|found| found == variable.as_bytes()) {
                true => Witness::Ours,
                false => Witness::Other,
            }
        }
    }
}

fn environment(told: &[u8]) -> Option<&[u8]> {
    let (count, rest) = told.split_first_chunk()?;
    let count = usize::try_from(i32::from_ne_bytes(*count)).ok()?;
    let path = rest.iter().position(|byte| *byte == 0)?;
    let arguments = path + rest.get(path..)?.iter().position(|byte| *byte != 0)?;
    let mut rest = rest.get(arguments..)?;
    for _ in 0..count {
        let end = rest.iter().position(|byte| *byte == 0)?;
        rest = rest.get(end + 1..)?;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
