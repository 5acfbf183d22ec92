//! Fields of an engine's request: of a specification, and raw ones, merged over a launcher's options.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use serde_json::{Map, Value};

use crate::launch::{ServerSpec, SpecError};

/// Returns the error of an option.
pub fn invalid(option: &str, problem: impl Into<String>) -> SpecError {
    SpecError::InvalidOption {
        name: option.to_owned(),
        problem: problem.into(),
    }
}

/// Converts a value to UTF-8, as JSON requires.
pub fn text(option: &str, value: &OsStr) -> Result<String, SpecError> {
    let text = value.to_str().map(str::to_owned);
    text.ok_or_else(|| invalid(option, "is not valid UTF-8"))
}

/// Returns the variables that a specification sets, or passes by name from `host`. Nothing is
/// inherited: the host's PATH and HOME mean nothing in a container.
pub fn environment(
    spec: &ServerSpec,
    host: impl Fn(&OsStr) -> Option<OsString>,
) -> Result<BTreeMap<String, String>, SpecError> {
    let passed = spec.env().passed();
    let passed = passed.filter_map(|name| Some((name, host(name)?)));
    let set = spec.env().literals();
    let set = set.map(|(name, value)| (name, value.to_owned()));
    passed
        .chain(set)
        .map(|(name, value)| Ok((text("env", name)?, text("env", &value)?)))
        .collect()
}

/// Merges `fields` into `whole`: objects, and lists of named items by name. Anything else replaces.
pub fn over(whole: &mut Map<String, Value>, fields: Map<String, Value>) {
    for (name, value) in fields {
        put(whole.entry(name).or_insert(Value::Null), value);
    }
}

fn put(whole: &mut Value, value: Value) {
    match (whole, value) {
        (Value::Object(whole), Value::Object(fields)) => over(whole, fields),
        (Value::Array(whole), Value::Array(items)) if is_named(&items) => {
            for item in items {
                match whole.iter_mut().find(|known| known["name"] == item["name"]) {
                    Some(known) => put(known, item),
                    None => whole.push(item),
                }
            }
        }
        (whole, value) => *whole = value,
    }
}

/// Returns whether this is a list of items with names.
pub fn is_named(list: &[Value]) -> bool {
    !list.is_empty() && list.iter().all(|item| item["name"].is_string())
}

/// Returns the value at the path `a.b`, or a `null` above it.
pub fn set_at<'a>(fields: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let first = fields.get(names.next()?)?;
    names.try_fold(first, |value, name| match value {
        Value::Null => Some(value),
        value => value.get(name),
    })
}

/// Returns the first field of `asked` that is not in `kept`, by its path from `at`: the engine's API types do not have it
/// and would drop it silently.
pub fn missing(asked: &Value, kept: &Value, at: &str) -> Option<String> {
    let below = |name: &str| match at {
        "" => name.to_owned(),
        at => format!("{at}.{name}"),
    };
    match (asked, kept) {
        (Value::Null, _) => None,
        (Value::Object(asked), kept) => {
            asked.iter().find_map(|(name, asked)| match kept.get(name) {
                Some(kept) => missing(asked, kept, &below(name)),
                None if asked.is_null() => None,
                None => Some(below(name)),
            })
        }
        (Value::Array(asked), Value::Array(kept)) => {
            let mut pairs = asked.iter().zip(kept);
            pairs.find_map(|(asked, kept)| missing(asked, kept, at))
        }
        _ => None,
    }
}
