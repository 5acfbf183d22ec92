//! The body of a create request: our labels, and our socket. Pure.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::head::Route;
use crate::labels;
use crate::wrapper::policy::{Fate, ReapPolicy};

/// What is put into the creates of one server.
#[derive(Debug)]
pub(crate) struct Marks {
    /// The labels of the launch.
    pub(crate) labels: HashMap<String, String>,
    pub(crate) policy: ReapPolicy,
    /// Where the daemon's socket is, and where the proxy's is instead: for a
    /// container that is given the socket, to start containers beside itself,
    /// and does not outlive the server.
    pub(crate) sockets: Option<(String, String)>,
}

/// The body with our labels; `None` when it is not what it should be, and the
/// daemon may say so.
pub(super) fn rewrite(body: &[u8], route: Route, marks: &Marks) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(body).ok()?;
    let create = value.as_object_mut()?;
    spell(
        create,
        &[
            "HostConfig",
            labels_of(route),
            "OpenStdin",
            "AttachStdin",
            "StdinOnce",
            "remove",
        ],
    );
    if let Some(host) = create.get_mut("HostConfig").and_then(Value::as_object_mut) {
        spell(host, &["AutoRemove", "Binds", "Mounts"]);
    }
    let fate = marks.policy.fate(is_tied(create));
    let all = create.entry(labels_of(route)).or_insert(Value::Null);
    if !all.is_object() {
        *all = Value::Object(Map::new());
    }
    let all = all.as_object_mut()?;
    // Nobody else has anything to say about these.
    all.retain(|key, _| !key.starts_with(labels::PREFIX));
    for (key, value) in &marks.labels {
        all.insert(key.clone(), Value::String(value.clone()));
    }
    let on_end = match fate {
        Fate::End => labels::END,
        Fate::Keep => labels::KEEP,
    };
    all.insert(labels::ON_END.to_owned(), Value::String(on_end.to_owned()));
    // Ours ends with the server: what stays behind needs the engine's own.
    if let (Fate::End, Some((theirs, ours))) = (fate, &marks.sockets) {
        replace_socket(create, theirs, ours);
    }
    serde_json::to_vec(&value).ok()
}

fn labels_of(route: Route) -> &'static str {
    match route {
        Route::CreateLibpod => "labels",
        Route::Create | Route::CreateLasting | Route::Other => "Labels",
    }
}

/// Gives the keys that matter here their spelling. A daemon takes any: beside
/// ours, a second one in other letters could take its place.
fn spell(object: &mut Map<String, Value>, keys: &[&str]) {
    for known in keys {
        let other = |key: &&String| key.eq_ignore_ascii_case(known) && key.as_str() != *known;
        while let Some(key) = object.keys().find(other).cloned() {
            if let Some(value) = object.remove(&key) {
                object.entry(*known).or_insert(value);
            }
        }
    }
}

/// Whether its client meant it to end with the client: it is removed when it
/// ends, or its standard input is the client's.
fn is_tied(create: &Map<String, Value>) -> bool {
    let is = |value: Option<&Value>| value.and_then(Value::as_bool) == Some(true);
    let host = create.get("HostConfig").and_then(Value::as_object);
    let auto_remove = is(host.and_then(|host| host.get("AutoRemove"))) || is(create.get("remove"));
    let attached = ["OpenStdin", "AttachStdin", "StdinOnce"]
        .iter()
        .all(|key| is(create.get(*key)));
    auto_remove || attached
}

fn replace_socket(create: &mut Map<String, Value>, theirs: &str, ours: &str) {
    let Some(host) = create.get_mut("HostConfig").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(binds) = host.get_mut("Binds").and_then(Value::as_array_mut) {
        for bind in binds {
            let new = bind.as_str().and_then(|bind| {
                let (source, rest) = bind.split_once(':')?;
                is_socket(source, theirs).then(|| format!("{ours}:{rest}"))
            });
            if let Some(new) = new {
                *bind = Value::String(new);
            }
        }
    }
    if let Some(mounts) = host.get_mut("Mounts").and_then(Value::as_array_mut) {
        for source in mounts
            .iter_mut()
            .filter_map(|mount| mount.get_mut("Source"))
        {
            if source.as_str().is_some_and(|s| is_socket(s, theirs)) {
                *source = Value::String(ours.to_owned());
            }
        }
    }
}

/// `/var/run` is `/run` on today's systems.
fn is_socket(path: &str, socket: &str) -> bool {
    fn plain(path: &str) -> &Path {
        Path::new(
            path.strip_prefix("/var")
                .filter(|p| p.starts_with("/run"))
                .unwrap_or(path),
        )
    }
    plain(path) == plain(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn marks(policy: ReapPolicy) -> Marks {
        Marks {
            labels: [(labels::LAUNCH.to_owned(), "L".to_owned())].into(),
            policy,
            sockets: Some(("/var/run/docker.sock".into(), "/p.sock".into())),
        }
    }

    fn rewritten(body: Value, policy: ReapPolicy) -> Value {
        let body = body.to_string();
        let new = rewrite(body.as_bytes(), Route::Create, &marks(policy)).unwrap();
        serde_json::from_slice(&new).unwrap()
    }

    #[test]
    fn labels_are_added_wherever_there_were_none() {
        for body in [json!({}), json!({"Labels": null}), json!({"Labels": {}})] {
            let new = rewritten(body, ReapPolicy::Tied);
            assert_eq!(new["Labels"][labels::LAUNCH], "L");
        }
        let kept = rewritten(
            json!({"Labels": {"a": "b"}, "Image": "i"}),
            ReapPolicy::Tied,
        );
        assert_eq!(kept["Labels"]["a"], "b");
        assert_eq!(kept["Image"], "i");
    }

    #[test]
    fn nobody_can_claim_our_labels() {
        let claim = json!({"Labels": {labels::LAUNCH: "x", labels::INSTANCE: "x"}});
        let new = rewritten(claim, ReapPolicy::Tied);
        assert_eq!(new["Labels"][labels::LAUNCH], "L");
        assert_eq!(new["Labels"].get(labels::INSTANCE), None);
    }

    #[test]
    fn keys_in_other_letters_say_nothing_else() {
        let claim = json!({"labels": {labels::LAUNCH: "x", "a": "b"}, "LABELS": {"c": "d"}});
        let new = rewritten(claim, ReapPolicy::Tied);
        assert_eq!(new.as_object().unwrap().len(), 1, "{new}");
        assert_eq!(new["Labels"][labels::LAUNCH], "L");
        let tied = json!({"hostconfig": {"autoremove": true}});
        let new = rewritten(tied, ReapPolicy::Tied);
        assert_eq!(new["Labels"][labels::ON_END], labels::END);
    }

    #[test]
    fn what_is_tied_ends_and_what_is_detached_stays() {
        let fate = |body, policy| rewritten(body, policy)["Labels"][labels::ON_END].clone();
        let rm = || json!({"HostConfig": {"AutoRemove": true}});
        let attached = || json!({"OpenStdin": true, "AttachStdin": true, "StdinOnce": true});
        let detached = || json!({"OpenStdin": true, "HostConfig": {"AutoRemove": false}});
        assert_eq!(fate(rm(), ReapPolicy::Tied), "end");
        assert_eq!(fate(attached(), ReapPolicy::Tied), "end");
        assert_eq!(fate(detached(), ReapPolicy::Tied), "keep");
        assert_eq!(fate(detached(), ReapPolicy::All), "end");
        assert_eq!(fate(rm(), ReapPolicy::Report), "keep");
    }

    #[test]
    fn a_container_that_gets_the_socket_gets_ours_if_it_ends_with_its_server() {
        let body = || {
            json!({"HostConfig": {
                "AutoRemove": true,
                "Binds": ["/run/docker.sock:/var/run/docker.sock:rw", "/a:/b"],
                "Mounts": [{"Type": "bind", "Source": "/var/run/docker.sock", "Target": "/s"}],
            }})
        };
        let kept = &rewritten(body(), ReapPolicy::Report)["HostConfig"];
        assert_eq!(*kept, body()["HostConfig"]);
        let host = &rewritten(body(), ReapPolicy::Tied)["HostConfig"];
        assert_eq!(
            host["Binds"],
            json!(["/p.sock:/var/run/docker.sock:rw", "/a:/b"])
        );
        assert_eq!(host["Mounts"][0]["Source"], "/p.sock");
    }

    #[test]
    fn what_is_not_json_is_the_daemons_to_refuse() {
        assert!(rewrite(b"{", Route::Create, &marks(ReapPolicy::All)).is_none());
        assert!(rewrite(b"[]", Route::Create, &marks(ReapPolicy::All)).is_none());
        let libpod = rewrite(
            b"{\"remove\":true}",
            Route::CreateLibpod,
            &marks(ReapPolicy::Tied),
        );
        let libpod: Value = serde_json::from_slice(&libpod.unwrap()).unwrap();
        assert_eq!(libpod["labels"][labels::ON_END], "end");
    }
}
