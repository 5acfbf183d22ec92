//! Patterns of processes that outlive their server. Pure; guardian and host include this file.
//!
//! A pattern with a slash is compared with the whole command line, joined by single spaces; any
//! other with the names of the process and its program. `*` matches any characters, `?` one.

/// Limit of all patterns in bytes, separated by line feeds.
pub const PATTERNS_MAX: usize = 256;

/// Compared bytes of a command line.
pub const COMMAND_MAX: usize = 1024;

/// Returns whether a pattern matches a process of this name and command line (zero-terminated
/// words).
pub fn is_meant(patterns: &[u8], name: &[u8], command: &[u8]) -> bool {
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

/// Backtracks only to the last `*`: at most the product of both lengths.
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
                // The rest of the text gets shorter each time.
                Some((after, from)) if from < text.len() => {
                    star = Some((after, from + 1));
                    (at, seen) = (after, from + 1);
                }
                _ => return false,
            },
        }
    }
}

fn spaced(byte: u8) -> u8 {
    if byte == 0 { b' ' } else { byte }
}
