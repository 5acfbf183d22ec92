//! Rows as columns of text. Pure.

/// Formats rows in columns. Titles of numeric columns begin with `>`.
pub(crate) fn render(titles: &[&str], rows: &[Vec<String>]) -> String {
    let plain = titles.iter().map(|it| it.trim_start_matches('>'));
    let plain: Vec<String> = plain.map(str::to_owned).collect();
    let mut widths = vec![0; titles.len()];
    for row in rows.iter().chain([&plain]) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in [&plain].into_iter().chain(rows) {
        let cells = row.iter().zip(&widths).zip(titles);
        let cells = cells.map(|((cell, width), title)| match title.starts_with('>') {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let titles = ["NAME", ">AGE", "HELD BY"];
        let rows = [
            row(["everything", "3m", "guardian"]),
            row(["zeit-ü", "12d", "nothing"]),
        ];
        assert_eq!(
            render(&titles, &rows),
            "NAME        AGE  HELD BY\n\
             everything   3m  guardian\n\
             zeit-ü      12d  nothing\n"
        );
        assert_eq!(render(&titles, &[]), "NAME  AGE  HELD BY\n");
    }
}
