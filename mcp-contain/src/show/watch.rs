//! A text that is printed once, or again and again in the same place.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use crate::failure::Failure;

/// The way in which a text is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print JSON (docs/contain-operate.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Look again every two seconds, until it is interrupted
    #[arg(long, conflicts_with = "json")]
    watch: bool,
}

/// The time between two looks.
const PAUSE: Duration = Duration::from_secs(2);

/// Prints it; and where it is watched, again every two seconds, until nobody listens any more.
pub(crate) fn show(
    options: &Options,
    text: impl Fn() -> Result<String, Failure>,
) -> Result<ExitCode, Failure> {
    let mut out = io::stdout();
    loop {
        let text = text()?;
        let text = match options.watch && out.is_terminal() {
            true => {
                let height =
                    terminal_size::terminal_size().map_or(usize::MAX, |(_, it)| usize::from(it.0));
                redrawn(&text, height)
            }
            false => text,
        };
        // Nobody may be listening any more.
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if !options.watch || written.is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        thread::sleep(PAUSE);
    }
}

/// Over what is there, from the top and line by line, so that nothing flickers; no more than there is room for.
fn redrawn(text: &str, height: usize) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.len() >= height {
        lines.truncate(height.saturating_sub(2));
        lines.push("…");
    }
    let mut drawn = String::from("\u{1b}[H");
    for line in lines {
        drawn.push_str(line);
        drawn.push_str("\u{1b}[K\n");
    }
    drawn.push_str("\u{1b}[J");
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_is_drawn_over_and_nothing_scrolls() {
        assert_eq!(
            redrawn("a\nb\n", 24),
            "\u{1b}[Ha\u{1b}[K\nb\u{1b}[K\n\u{1b}[J"
        );
        let tall = redrawn(&"x\n".repeat(50), 10);
        assert_eq!(tall.matches('\n').count(), 9);
        assert!(tall.contains("…\u{1b}[K\n\u{1b}[J"), "{tall:?}");
        assert!(redrawn("a\n", 0).starts_with("\u{1b}[H"));
    }
}
