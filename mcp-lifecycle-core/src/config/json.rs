//! Reads the JSON of Claude Desktop, Cursor, VS Code and OpenClaw.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::entry::Found;
use super::error::{ConfigError, ConfigErrorKind};
use super::values::Entries;

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow, rename = "mcpServers")]
    mcp_servers: Option<Entries<&'a RawValue>>,
    #[serde(borrow)]
    servers: Option<Entries<&'a RawValue>>,
    #[serde(borrow)]
    mcp: Option<Mcp<'a>>,
}

#[derive(Deserialize)]
struct Mcp<'a> {
    #[serde(borrow)]
    servers: Option<Entries<&'a RawValue>>,
}

pub(super) fn entries(text: &str) -> Result<Option<Vec<Found>>, ConfigError> {
    // Comments are blanked, so that positions stay those of the file.
    let mut blanked = text.to_owned();
    if json_strip_comments::strip(&mut blanked).is_err() {
        text.clone_into(&mut blanked);
    }
    let wrong = |error: &serde_json::Error, within: &str, start: usize| {
        let offset = start + offset(within, error.line(), error.column());
        ConfigErrorKind::Syntax(message(error)).at(text, offset)
    };
    let file: File<'_> = serde_json::from_str(&blanked).map_err(|e| wrong(&e, &blanked, 0))?;
    let tables = [
        file.mcp_servers,
        file.servers,
        file.mcp.and_then(|mcp| mcp.servers),
    ];
    if tables.iter().all(Option::is_none) {
        return match blanked.split_whitespace().collect::<String>() == "{}" {
            true => Ok(None),
            false => Err(ConfigErrorKind::NoServers.nowhere()),
        };
    }
    let entries = tables
        .into_iter()
        .flatten()
        .flat_map(|Entries(entries)| entries);
    let mut found: Vec<Found> = Vec::new();
    for (name, raw) in entries {
        let raw = raw.get();
        // `raw` borrows from `blanked`, so its offset is the position in the file.
        let start = raw.as_ptr().addr() - blanked.as_ptr().addr();
        if found.iter().any(|known| known.name == name) {
            let twice = format!("server `{name}` occurs twice");
            return Err(ConfigErrorKind::Syntax(twice).at(text, start));
        }
        let entry = serde_json::from_str(raw).map_err(|error| {
            let at = start + offset(raw, error.line(), error.column());
            let problem = format!("server `{name}`: {}", message(&error));
            ConfigErrorKind::Syntax(problem).at(text, at)
        })?;
        found.push(Found {
            name,
            entry,
            start,
            end: start + raw.len(),
        });
    }
    Ok(Some(found))
}

fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

fn offset(text: &str, line: usize, column: usize) -> usize {
    let lines = text.split_inclusive('\n').take(line.saturating_sub(1));
    let start: usize = lines.map(str::len).sum();
    (start + column.saturating_sub(1)).min(text.len())
}
