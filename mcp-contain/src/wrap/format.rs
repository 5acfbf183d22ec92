//! Traits that the formats of configuration files share. Pure.

use std::collections::BTreeMap;

use super::entry::{Entry, Skip};
use super::{json, toml};

/// The keys that lead to a table of servers; `*` is any key.
pub(crate) type Table = &'static [&'static str];

/// How a configuration file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON, with comments, trailing commas and the rest of JSON5.
    Json,
    Toml,
}

/// The keys of a server that is not started but reached.
pub(super) const URL_KEYS: [&str; 4] = ["url", "serverUrl", "httpUrl", "uri"];

impl Format {
    /// The servers in these tables of a file.
    ///
    /// # Errors
    ///
    /// It is not written in this format: what is wrong with it, and where.
    pub(super) fn entries(self, text: &str, tables: &[Table]) -> Result<Vec<Entry>, String> {
        let mut entries = match self {
            Self::Json => json::entries(text, tables),
            Self::Toml => toml::entries(text, tables),
        }?;
        entries.sort_by_key(|entry| entry.range.start);
        let mut seen = BTreeMap::<Vec<String>, usize>::new();
        for entry in &mut entries {
            let seen = seen.entry(entry.path.clone()).or_default();
            entry.occurrence = *seen;
            *seen += 1;
        }
        Ok(entries)
    }

    /// A text as it is written in this format.
    pub(super) fn quote(self, text: &str) -> String {
        match self {
            Self::Json => serde_json::Value::from(text).to_string(),
            Self::Toml => toml_edit::Value::from(text).to_string(),
        }
    }
}

/// The text before `at` on its line, if that is nothing but white space and there is a line above.
pub(super) fn indentation(text: &str, at: usize) -> Option<&str> {
    let start = text[..at].rfind('\n')? + 1;
    let before = &text[start..at];
    before.chars().all(char::is_whitespace).then_some(before)
}

/// How lines end in this text, by the first one.
pub(super) fn line_end(text: &str) -> &'static str {
    let end = text.find('\n');
    match end.is_some_and(|end| text[..end].ends_with('\r')) {
        true => "\r\n",
        false => "\n",
    }
}

pub(super) fn no_text(key: &str) -> Skip {
    Skip::Unclear(format!("has a `{key}` that is no text"))
}

pub(super) fn no_list(key: &str) -> Skip {
    Skip::Unclear(format!("has `{key}` that are no list"))
}
