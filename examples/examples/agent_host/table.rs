//! The list of servers as a table for a terminal.

use std::fmt;
use std::time::Duration;

use mcp_lifecycle_core::fleet::ServerRecord;

/// Prints records as a table, one line each.
pub(crate) struct RecordTable<'a>(pub(crate) &'a [ServerRecord]);

const HEADS: [&str; 9] = [
    "SERVER",
    "OWNER",
    "STATE",
    "ID",
    "LEASES",
    "CALLS",
    "AGE",
    "USED",
    "ALIVE BECAUSE",
];

impl fmt::Display for RecordTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<_> = self.0.iter().map(cells).collect();
        let mut widths = HEADS.map(str::len);
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let heads = HEADS.map(str::to_owned);
        for row in std::iter::once(&heads).chain(&rows) {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                line.push_str(&format!("{cell:<width$}  "));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn cells(record: &ServerRecord) -> [String; HEADS.len()] {
    let identity = record.identity.as_ref().map(ToString::to_string);
    let next = record
        .next_attempt
        .map(|wait| format!("; again in {}", short(wait)));
    let failure = record.last_error.as_ref().map(|error| format!("; {error}"));
    [
        record.server.to_string(),
        record.owner.to_string(),
        record.state.to_string(),
        identity.unwrap_or_else(|| "-".to_owned()),
        record.leases.to_string(),
        record.in_flight.to_string(),
        record.age.map_or_else(|| "-".to_owned(), short),
        short(record.last_use),
        format!(
            "{}{}{}",
            record.kept_by,
            next.unwrap_or_default(),
            failure.unwrap_or_default()
        ),
    ]
}

fn short(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{}ms", time.as_millis()),
        s @ 1..60 => format!("{s}s"),
        s @ 60..3600 => format!("{}m{}s", s / 60, s % 60),
        s => format!("{}h{}m", s / 3600, s / 60 % 60),
    }
}
