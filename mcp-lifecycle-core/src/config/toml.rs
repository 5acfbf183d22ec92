use serde::Deserialize;
use toml::Spanned;

use super::entry::Entry;
use super::entry::Found;
use super::error::{ConfigError, ConfigErrorKind};
use super::values::Entries;

#[derive(Deserialize)]
struct File {
    mcp_servers: Option<Entries<Spanned<Entry>>>,
}

pub(super) fn entries(text: &str) -> Result<Option<Vec<Found>>, ConfigError> {
    let file: File = toml::from_str(text).map_err(|error| {
        let problem = ConfigErrorKind::Syntax(error.message().to_owned());
        match error.span() {
            Some(span) => problem.at(text, span.start),
            None => problem.nowhere(),
        }
    })?;
    let Some(Entries(entries)) = file.mcp_servers else {
        return Err(ConfigErrorKind::NoServers.nowhere());
    };
    let found = entries.into_iter().map(|(name, entry)| {
        let start = entry.span().start;
        // The span of a table covers only its header; its keys follow.
        let end = text.len();
        Found {
            name,
            entry: entry.into_inner(),
            start,
            end,
        }
    });
    Ok(Some(found.collect()))
}
