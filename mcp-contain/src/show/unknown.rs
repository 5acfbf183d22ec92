//! What could not be looked at, the same for every verb.

use mcp_lifecycle_core::launch::UnknownRemnant;
use serde_json::{Value, json};

use super::text::printable;

/// A line for each.
pub(crate) fn lines(unknown: &[UnknownRemnant]) -> impl Iterator<Item = String> {
    unknown.iter().map(|it| {
        let (what, why) = (printable(&it.what.to_string()), printable(&it.why));
        format!("not known: {what} ({why})")
    })
}

pub(crate) fn as_json<'a>(unknown: impl IntoIterator<Item = &'a UnknownRemnant>) -> Value {
    let all = unknown.into_iter();
    all.map(|it| json!({"what": it.what.to_string(), "why": it.why}))
        .collect()
}
