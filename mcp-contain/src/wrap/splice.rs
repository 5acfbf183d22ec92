//! Changes of a text by position; all other bytes are kept. Pure.

use std::ops::Range;

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
