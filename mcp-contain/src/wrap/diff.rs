//! Changes of a text by position; all other bytes are kept. And a readable diff: shows only the server that changes, without values of variables and headers,
//! since the file may hold secrets. Pure.

use std::ops::Range;

use diffy::{Line, create_patch};
use mcp_lifecycle_core::document::position;

use super::format::Entry;
use crate::show::text::printable;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) title: String,
    pub(crate) line: usize,
    before: String,
    after: String,
}

impl Change {
    pub(super) fn new(body: &str, entry: &Entry, splices: &[Splice]) -> Self {
        let part = &entry.range;
        let masks = entry.secrets.iter();
        let masks = masks.map(|secret| Splice::replace(secret.clone(), "\"…\""));
        let shown = |splices: &mut dyn Iterator<Item = Splice>| {
            let inside = |it: &Splice| part.start <= it.range.start && it.range.end <= part.end;
            let whole = apply(body, &splices.filter(inside).collect::<Vec<_>>());
            let end = whole.len() - (body.len() - part.end);
            printable(&whole[part.start..end])
        };
        Self {
            title: entry.title(),
            line: position(body, part.start).0,
            before: shown(&mut masks.clone()),
            after: shown(&mut masks.chain(splices.iter().cloned())),
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let patch = create_patch(&self.before, &self.after);
        let lines = patch.hunks().iter().flat_map(|hunk| hunk.lines());
        let signed = lines.map(|line| match line {
            Line::Context(text) => (' ', text),
            Line::Delete(text) => ('-', text),
            Line::Insert(text) => ('+', text),
        });
        signed
            .map(|(sign, text)| format!("{sign}{}", text.trim_end_matches('\n')))
            .collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Splice {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

impl Splice {
    pub(super) fn replace(range: Range<usize>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { range, text }
    }

    pub(super) fn insert(at: usize, text: impl Into<String>) -> Self {
        Self::replace(at..at, text)
    }

    pub(super) fn remove(range: Range<usize>) -> Self {
        Self::replace(range, "")
    }
}

/// Applies these changes. They must be in range, on character boundaries, and not overlap.
pub(super) fn apply(text: &str, splices: &[Splice]) -> String {
    let mut splices: Vec<&Splice> = splices.iter().collect();
    splices.sort_by_key(|splice| splice.range.start);
    let mut changed = String::with_capacity(text.len() + 64 * splices.len());
    let mut done = 0;
    for splice in splices {
        changed.push_str(&text[done..splice.range.start]);
        changed.push_str(&splice.text);
        done = splice.range.end;
    }
    changed.push_str(&text[done..]);
    changed
}
