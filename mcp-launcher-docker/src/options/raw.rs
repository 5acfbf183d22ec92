//! Fields of the engine's own request, over what the options say. Pure.

use bollard::models::ContainerCreateBody;
use mcp_lifecycle_core::launch::SpecError;
use serde_json::{Map, Value};

use super::body::invalid;

const OPTION: &str = "the launcher's option of that name sets it";
const SPEC: &str = "the server's specification sets it";
const LIFECYCLE: &str = "the server's lifecycle rests on it";

/// What cannot be set here, and why.
const OURS: &[(&str, &str)] = &[
    ("Image", OPTION),
    ("Labels", OPTION),
    ("Env", SPEC),
    ("Cmd", SPEC),
    ("Entrypoint", SPEC),
    ("WorkingDir", SPEC),
    ("Tty", LIFECYCLE),
    ("OpenStdin", LIFECYCLE),
    ("StdinOnce", LIFECYCLE),
    ("AttachStdin", LIFECYCLE),
    ("AttachStdout", LIFECYCLE),
    ("AttachStderr", LIFECYCLE),
    ("HostConfig.AutoRemove", LIFECYCLE),
    ("HostConfig.RestartPolicy", LIFECYCLE),
    ("HostConfig.Init", OPTION),
    // The end of a process 1 that is not the namespace's ends nobody else.
    ("HostConfig.PidMode", LIFECYCLE),
];

/// The request with these fields. Objects are merged, `null` takes a field
/// away, anything else replaces.
pub(super) fn merge(
    body: ContainerCreateBody,
    fields: &Map<String, Value>,
) -> Result<ContainerCreateBody, SpecError> {
    if fields.is_empty() {
        return Ok(body);
    }
    for (path, why) in OURS {
        let pointer = format!("/{}", path.replace('.', "/"));
        if pointed(fields, &pointer).is_some() {
            return Err(wrong(format!("`{path}` cannot be set here: {why}")));
        }
    }
    let failed = |error: serde_json::Error| wrong(error.to_string());
    let mut whole = match serde_json::to_value(body).map_err(failed)? {
        Value::Object(whole) => whole,
        _ => Map::new(),
    };
    over(&mut whole, fields.clone());
    let body: ContainerCreateBody = serde_json::from_value(whole.into()).map_err(failed)?;
    // What the types do not have was dropped without a word.
    let kept = serde_json::to_value(&body).map_err(failed)?;
    match missing(&fields.clone().into(), &kept, "") {
        Some(path) => Err(wrong(format!("the engine's API has no `{path}`"))),
        None => Ok(body),
    }
}

/// Puts `fields` over `whole`.
pub(super) fn over(whole: &mut Map<String, Value>, fields: Map<String, Value>) {
    for (name, value) in fields {
        match (whole.get_mut(&name), value) {
            (Some(Value::Object(inner)), Value::Object(fields)) => over(inner, fields),
            (_, value) => {
                whole.insert(name, value);
            }
        }
    }
}

/// Finds what is set at this place. `null` sets all that would be below it.
fn pointed<'a>(fields: &'a Map<String, Value>, pointer: &str) -> Option<&'a Value> {
    let mut names = pointer.split('/').skip(1);
    let first = fields.get(names.next()?)?;
    names.try_fold(first, |value, name| match value {
        Value::Null => Some(value),
        value => value.get(name),
    })
}

/// The first field of `asked` that is not in `kept`.
fn missing(asked: &Value, kept: &Value, at: &str) -> Option<String> {
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

fn wrong(problem: String) -> SpecError {
    invalid("create_body", problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(fields: Value) -> Result<Value, String> {
        let body = json!({"User": "a", "HostConfig": {"Memory": 1, "ReadonlyRootfs": true}});
        let body = serde_json::from_value(body).unwrap();
        let merged = merge(body, fields.as_object().unwrap());
        let merged = merged.map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(merged).unwrap())
    }

    #[test]
    fn it_wins_over_the_options_field_by_field() {
        let merged = merged(json!({
            "User": null,
            "HostConfig": {"Memory": 2, "Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 2}]},
        }));
        let merged = merged.unwrap();
        assert_eq!(merged.get("User"), None);
        assert_eq!(merged["HostConfig"]["Memory"], 2);
        assert_eq!(merged["HostConfig"]["ReadonlyRootfs"], true);
        assert_eq!(merged["HostConfig"]["Ulimits"][0]["Name"], "nofile");
    }

    #[test]
    fn what_the_api_does_not_have_is_refused_and_not_dropped() {
        for (fields, name) in [
            (json!({"HostConfig": {"Memry": 2}}), "`HostConfig.Memry`"),
            (json!({"hostconfig": {"Memory": 2}}), "`hostconfig`"),
            (
                json!({"HostConfig": {"Ulimits": [{"Name": "a"}, {"Nam": "b"}]}}),
                "`HostConfig.Ulimits.Nam`",
            ),
            (json!({"HostConfig": {"Memory": "lots"}}), "lots"),
        ] {
            let error = merged(fields).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn what_the_lifecycle_rests_on_stays() {
        for fields in [
            json!({"Tty": true}),
            json!({"Labels": {}}),
            json!({"HostConfig": {"AutoRemove": false}}),
            json!({"HostConfig": {"RestartPolicy": {"Name": "always"}}}),
            json!({"Image": null}),
            json!({"HostConfig": null}),
        ] {
            let error = merged(fields).unwrap_err();
            assert!(error.contains("cannot be set here"), "{error}");
        }
    }
}
