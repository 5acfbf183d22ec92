//! Items that could not be examined, the same for every verb.

use std::collections::BTreeSet;
use std::path::Path;

use mcp_lifecycle_core::launch::{RemnantKind, UnknownRemnant};
use serde_json::{Value, json};

use super::text::one_line;

/// Returns a line for each item, and one for each engine.
pub(crate) fn lines(unknown: &[UnknownRemnant]) -> impl Iterator<Item = String> {
    let mut seen = BTreeSet::new();
    let new = move |it: &&UnknownRemnant| seen.insert(it.what.id.clone());
    unknown.iter().filter(new).map(line)
}

fn line(it: &UnknownRemnant) -> String {
    let (id, why) = (one_line(&it.what.id), one_line(&it.why));
    match &it.what.kind {
        RemnantKind::Other(kind) if kind == "engine" => match is_gone(&it.what.id) {
            true => format!(
                "Containers at {id} cannot be looked for: its socket is gone. If its engine does not come back: `mcp-contain reap --forget {id}`"
            ),
            // Each cause repeats the address: the last part is the reason.
            false => format!(
                "Containers at {id} cannot be looked for: the engine does not answer ({}). Start it, then look again.",
                why.rsplit(": ").next().unwrap_or_default()
            ),
        },
        _ => format!("Not known: {} ({why})", one_line(&it.what.to_string())),
    }
}

pub(crate) fn is_gone(url: &str) -> bool {
    let path = url.strip_prefix("unix://").map(Path::new);
    path.is_some_and(|path| path.try_exists().is_ok_and(|is_there| !is_there))
}

pub(crate) fn as_json<'a>(unknown: impl IntoIterator<Item = &'a UnknownRemnant>) -> Value {
    let all = unknown.into_iter();
    all.map(|it| json!({"what": it.what.to_string(), "why": it.why}))
        .collect()
}
