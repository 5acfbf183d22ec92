//! Columns that fit the terminal. Pure, but for the terminal's width.

use std::io::{self, IsTerminal};

/// Narrower than that, lines wrap: nobody could read the columns.
const NARROWEST: usize = 40;

/// No column gives way further.
const LEAST: usize = 8;

/// How a table is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// Characters of a line; `None` for no limit, as in a file.
    pub(crate) width: Option<usize>,
    pub(crate) colour: bool,
}

impl Style {
    /// The style of standard output: limits and colours are for terminals only, and `NO_COLOR` is obeyed.
    pub(crate) fn of_output() -> Self {
        let is_terminal = io::stdout().is_terminal();
        let width = terminal_size::terminal_size().filter(|_| is_terminal);
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            width: width.map(|(width, _)| usize::from(width.0)),
            colour: is_terminal && !no_colour,
        }
    }
}

/// A line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) cells: Vec<String>,
    /// Worth a look: shown in red.
    pub(crate) is_bad: bool,
}

/// The table with its titles; `flexible` are the columns that give way where there is little room, the widest first. Titles
/// that begin with `>` are those of numbers.
pub(crate) fn render(titles: &[&str], flexible: &[usize], rows: &[Row], style: Style) -> String {
    let title_row = Row {
        cells: titles
            .iter()
            .map(|title| title.trim_start_matches('>').to_owned())
            .collect(),
        is_bad: false,
    };
    let all = || std::iter::once(&title_row).chain(rows);
    let longest = |column: usize| {
        all()
            .filter_map(|row| row.cells.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let mut widths: Vec<usize> = (0..titles.len())
        .map(|column| longest(column).unwrap_or(0))
        .collect();
    let limit = style.width.map(|limit| limit.max(NARROWEST));
    let total = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
    for _ in limit.map_or(0..0, |limit| limit..total) {
        let wide = flexible
            .iter()
            .copied()
            .filter(|&column| widths[column] > LEAST);
        match wide.max_by_key(|&column| widths[column]) {
            Some(widest) => widths[widest] -= 1,
            None => break,
        }
    }
    let mut text = String::new();
    for (at, row) in all().enumerate() {
        let cells = row.cells.iter().zip(&widths).zip(titles);
        let cells = cells.map(|((cell, width), title)| {
            let cell = cut(cell, *width);
            match title.starts_with('>') {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let line = line.trim_end();
        let line = cut(line, limit.unwrap_or(usize::MAX));
        match (style.colour, at == 0, row.is_bad) {
            (true, true, _) => text.push_str(&format!("\u{1b}[1m{line}\u{1b}[0m\n")),
            (true, _, true) => text.push_str(&format!("\u{1b}[31m{line}\u{1b}[0m\n")),
            _ => text.push_str(&format!("{line}\n")),
        }
    }
    text
}

fn cut(cell: &str, width: usize) -> String {
    match cell.chars().count() > width {
        true => cell
            .chars()
            .take(width.saturating_sub(1))
            .chain(['…'])
            .collect(),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |name: &str, age: &str, is_bad| Row {
            cells: vec![name.to_owned(), age.to_owned(), "guardian".to_owned()],
            is_bad,
        };
        vec![
            row("@modelcontextprotocol/server-everything", "3m", false),
            row("time", "12d", true),
        ]
    }

    #[test]
    fn columns_fit_the_terminal_and_a_file_has_all() {
        let titles = ["NAME", ">AGE", "HELD BY"];
        let plain = Style {
            width: None,
            colour: false,
        };
        let text = render(&titles, &[0], &rows(), plain);
        assert!(
            text.contains("@modelcontextprotocol/server-everything   3m  guardian\n"),
            "{text}"
        );
        let narrow = Style {
            width: Some(40),
            colour: false,
        };
        let text = render(&titles, &[0], &rows(), narrow);
        assert!(
            text.lines().all(|line| line.chars().count() <= 40),
            "{text}"
        );
        assert!(
            text.contains("@modelcontextprotocol/se…   3m  guardian"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'));
        let coloured = render(
            &titles,
            &[0],
            &rows(),
            Style {
                width: Some(80),
                colour: true,
            },
        );
        assert!(coloured.contains("\u{1b}[31mtime"), "{coloured:?}");
        assert_eq!(render(&titles, &[0], &[], plain), "NAME  AGE  HELD BY\n");
    }

    #[test]
    fn the_widest_gives_way_first_and_what_is_too_long_is_cut() {
        let row = |cells: [&str; 3]| Row {
            cells: cells.map(str::to_owned).to_vec(),
            is_bad: false,
        };
        let rows = [row([
            "a-name-of-20-letters",
            "a-host-of-30-letters-with-more",
            "12",
        ])];
        let narrow = |width| Style {
            width: Some(width),
            colour: false,
        };
        let titles = ["NAME", "HOST", ">N"];
        let text = render(&titles, &[0, 1], &rows, narrow(46));
        assert!(
            text.contains("a-name-of-20-letters  a-host-of-30-letter…  12\n"),
            "{text}"
        );
        let text = render(&titles, &[0], &rows, narrow(40));
        assert!(
            text.ends_with("a-name-…  a-host-of-30-letters-with-mor…\n"),
            "{text}"
        );
    }
}
