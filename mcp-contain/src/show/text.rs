//! Texts of others, as they may be shown on a terminal. Pure.

/// The text without what a terminal would obey, and without what turns the direction of what follows.
pub(crate) fn printable(text: &str) -> String {
    let plain = text.replace('\r', "");
    let shown = |c: char| match c {
        '\n' | '\t' => c,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => '·',
        c if c.is_control() => '·',
        c => c,
    };
    plain.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_that_a_terminal_obeys() {
        assert_eq!(
            printable("a\u{1b}[2J\u{202e}b\r\n\tü\u{9b}"),
            "a·[2J·b\n\tü·"
        );
    }
}
