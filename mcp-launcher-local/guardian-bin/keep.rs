//! Who is to stay when a server ends. Pure: guardian, host and tests include this file by path.
//!
//! A pattern with a slash is compared with the whole command line, its words separated by one space; any other with the name of the process and
//! with that of its program. `*` stands for any characters, `?` for one.

/// Bytes of all patterns together, each but the last followed by a line feed.
pub(crate) const PATTERNS_MAX: usize = 256;

/// Bytes of a command line that are looked at.
pub(crate) const COMMAND_MAX: usize = 1024;

/// Whether one of the patterns means a process of this name and command line, whose words are terminated by zeros.
pub(crate) fn is_meant(patterns: &[u8], name: &[u8], command: &[u8]) -> bool {
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let program = command.split(|&byte| byte == 0).next().unwrap_or_default();
    let base = program
        .rsplit(|&byte| byte == b'/')
        .next()
        .unwrap_or_default();
    let length = command
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    let line = command.get(..length).unwrap_or_default();
    let mut patterns = patterns
        .split(|&byte| byte == b'\n')
        .filter(|pattern| !pattern.is_empty());
    patterns.any(|pattern| match pattern.contains(&b'/') {
        true => matches(pattern, line),
        false => matches(pattern, name) || matches(pattern, base),
    })
}

/// Never goes back further than to the last `*`: at most the product of both lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(at), text.get(seen)) {
            (None, None) => return true,
            (Some(b'*'), _) => {
                star = Some((at + 1, seen));
                at += 1;
            }
            (Some(&wanted), Some(&found)) if wanted == b'?' || wanted == spaced(found) => {
                at += 1;
                seen += 1;
            }
            _ => match star {
                // What is left of the text is shorter by one each time.
                Some((after, from)) if from < text.len() => {
                    star = Some((after, from + 1));
                    (at, seen) = (after, from + 1);
                }
                _ => return false,
            },
        }
    }
}

/// Words are separated by zeros in /proc, and by spaces for people.
fn spaced(byte: u8) -> u8 {
    if byte == 0 { b' ' } else { byte }
}
