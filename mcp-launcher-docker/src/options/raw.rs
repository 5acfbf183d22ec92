//! Merges raw fields of the engine's request over the options. Pure.

use bollard::models::ContainerCreateBody;
use mcp_lifecycle_core::backend::fields::{invalid, over};
use mcp_lifecycle_core::backend::options::{LIFECYCLE, OPTION, Ours, SPEC, known, refuse};
use mcp_lifecycle_core::launch::SpecError;
use serde_json::{Map, Value};

/// The fields that cannot be set here, and why.
const OURS: Ours = &[
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
    // In another PID namespace the exit of process 1 does not end the others.
    ("HostConfig.PidMode", LIFECYCLE),
];

/// Merges these fields into the request. Objects are merged, `null` removes a field, anything else
/// replaces.
pub(super) fn merge(
    body: ContainerCreateBody,
    fields: &Map<String, Value>,
) -> Result<ContainerCreateBody, SpecError> {
    if fields.is_empty() {
        return Ok(body);
    }
    refuse("create_body", fields, OURS)?;
    let whole = serde_json::to_value(body);
    let mut whole = whole.map_err(|error| invalid("create_body", error.to_string()))?;
    if let Value::Object(whole) = &mut whole {
        over(whole, fields.clone());
    }
    known("create_body", &fields.clone().into(), whole)
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
