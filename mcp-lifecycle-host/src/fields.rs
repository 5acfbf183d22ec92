//! Fields of an engine's own request, put over what the options of a launcher say.

use serde_json::{Map, Value};

/// Puts `fields` over `whole`: objects are merged, anything else replaces.
pub fn over(whole: &mut Map<String, Value>, fields: Map<String, Value>) {
    for (name, value) in fields {
        match (whole.get_mut(&name), value) {
            (Some(Value::Object(inner)), Value::Object(fields)) => over(inner, fields),
            (_, value) => {
                whole.insert(name, value);
            }
        }
    }
}

/// Finds what is set at this place, `a.b`. `null` sets all that would be below it.
#[must_use]
pub fn set_at<'a>(fields: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let first = fields.get(names.next()?)?;
    names.try_fold(first, |value, name| match value {
        Value::Null => Some(value),
        value => value.get(name),
    })
}

/// The first field of `asked` that is not in `kept`: one that the types of the engine's
/// API do not have was dropped without a word.
#[must_use]
pub fn missing(asked: &Value, kept: &Value) -> Option<String> {
    missing_at(asked, kept, "")
}

fn missing_at(asked: &Value, kept: &Value, at: &str) -> Option<String> {
    let below = |name: &str| match at {
        "" => name.to_owned(),
        at => format!("{at}.{name}"),
    };
    match (asked, kept) {
        (Value::Null, _) => None,
        (Value::Object(asked), kept) => {
            asked.iter().find_map(|(name, asked)| match kept.get(name) {
                Some(kept) => missing_at(asked, kept, &below(name)),
                None if asked.is_null() => None,
                None => Some(below(name)),
            })
        }
        (Value::Array(asked), Value::Array(kept)) => {
            let mut pairs = asked.iter().zip(kept);
            pairs.find_map(|(asked, kept)| missing_at(asked, kept, at))
        }
        _ => None,
    }
}
