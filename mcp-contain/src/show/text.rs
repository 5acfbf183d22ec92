//! Foreign text, made safe for a terminal. Pure.

/// Makes a text [`printable`] on one line, without line feeds and tabs, which would forge rows and
/// columns.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], "·")
}

/// Removes terminal control characters and changes of text direction.
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

pub(crate) fn count(number: usize, what: &str, whats: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {whats}"),
    }
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
        assert_eq!([count(1, "a", "as"), count(0, "a", "as")], ["1 a", "0 as"]);
        assert_eq!(one_line("a\u{1b}[2J\nb\tc"), "a·[2J·b·c");
    }
}
