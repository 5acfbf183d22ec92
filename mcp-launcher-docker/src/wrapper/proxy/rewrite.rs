//! Adds our labels and socket to the body of a create request; the daemon judges the rest. Pure.

use mcp_guardian::identity::VARIABLE;
use serde_json::value::{RawValue, to_raw_value};

use super::fields::{Fields, text};
use super::route::{Kind, segments};
use crate::labels::Mark;
use crate::wrapper::ReapPolicy;

#[derive(Debug)]
pub(crate) struct Additions {
    pub(crate) mark: Mark,
    pub(crate) policy: ReapPolicy,
    /// The paths of the daemon's socket and of the proxy's. The proxy's replaces the other in a
    /// container that mounts the socket to start containers itself, and that ends with the server.
    pub(crate) sockets: Option<(String, String)>,
}

/// Adds our labels to the body. Returns it, and whether the container ends with the server. Anything
/// after the object is kept for the daemon to judge. An error quotes nothing of the body.
pub(super) fn rewrite(
    body: &[u8],
    kind: Kind,
    additions: &Additions,
) -> Result<(Vec<u8>, bool), String> {
    let body = String::from_utf8_lossy(body);
    let mut values = serde_json::Deserializer::from_str(&body).into_iter::<Fields>();
    let mut create = match values.next() {
        Some(Ok(create)) => create,
        Some(Err(error)) => {
            return Err(format!(
                "the body is not a JSON object, at line {} column {}",
                error.line(),
                error.column()
            ));
        }
        None => return Err("the request has no body".to_owned()),
    };
    let rest = body.get(values.byte_offset()..).unwrap_or_default();
    create.merge("HostConfig", |_| {});
    let ends = additions.policy.ends(is_tied(&create));
    let labels = match kind {
        Kind::Libpod => "labels",
        Kind::Container => "Labels",
    };
    create.merge(labels, |all| {
        // Replaces this host's keys only: a nested host needs its own.
        let own = additions.mark.with_fate(ends);
        all.retain(|key| !own.contains_key(key));
        for (key, value) in &own {
            all.set(key, value);
        }
    });
    create.change("Env", without_cookie);
    if let Some((theirs, ours)) = &additions.sockets {
        // The proxy ends with the server, so a lasting container needs the engine's own socket.
        let (from, to) = match ends {
            true => (theirs, ours),
            false => (ours, theirs),
        };
        create.change("HostConfig", |host| {
            let mut host = Fields::of(host)?;
            replace_socket(&mut host, from, to);
            to_raw_value(&host).ok()
        });
        if kind == Kind::Libpod {
            replace_socket(&mut create, from, to);
        }
    }
    let mut new = serde_json::to_vec(&create).map_err(|error| error.to_string())?;
    new.extend_from_slice(rest.as_bytes());
    Ok((new, ends))
}

fn is_tied(create: &Fields) -> bool {
    let host = create.values("HostConfig").last().and_then(Fields::of);
    let auto_remove = host.is_some_and(|host| host.is("AutoRemove")) || create.is("remove");
    let attached = ["OpenStdin", "AttachStdin", "StdinOnce"];
    auto_remove || attached.iter().all(|key| create.is(key))
}

/// Removes the mark, since a container has labels: the processes of a lasting one would be taken for
/// the server's.
fn without_cookie(env: &RawValue) -> Option<Box<RawValue>> {
    if let Some(mut fields) = Fields::of(env) {
        fields.retain(|name| name != VARIABLE);
        return to_raw_value(&fields).ok();
    }
    let mut list: Vec<Box<RawValue>> = serde_json::from_str(env.get()).ok()?;
    list.retain(|entry| text(entry).is_none_or(|entry| entry.split('=').next() != Some(VARIABLE)));
    to_raw_value(&list).ok()
}

fn replace_socket(host: &mut Fields, from: &str, to: &str) {
    let item = |change: &dyn Fn(&RawValue) -> Option<Box<RawValue>>, list: &RawValue| {
        let mut list: Vec<Box<RawValue>> = serde_json::from_str(list.get()).ok()?;
        for entry in &mut list {
            if let Some(new) = change(entry) {
                *entry = new;
            }
        }
        to_raw_value(&list).ok()
    };
    let bind = |bind: &RawValue| {
        let bind = text(bind)?;
        let (source, rest) = bind.split_once(':')?;
        let new = is_socket(source, from).then(|| format!("{to}:{rest}"))?;
        to_raw_value(&new).ok()
    };
    let mount = |mount: &RawValue| {
        let mut mount = Fields::of(mount)?;
        mount.change("Source", |source| {
            is_socket(&text(source)?, from).then(|| to_raw_value(to).ok())?
        });
        to_raw_value(&mount).ok()
    };
    host.change("Binds", |list| item(&bind, list));
    host.change("Mounts", |list| item(&mount, list));
}

/// Returns whether both names lead to the same file: `/var/run` is `/run` on today's systems.
fn is_socket(path: &str, socket: &str) -> bool {
    fn plain(path: &str) -> Option<Vec<&str>> {
        let mut parts = segments(path.strip_prefix('/')?);
        if parts.starts_with(&["var", "run"]) {
            parts.remove(0);
        }
        Some(parts)
    }
    plain(path).is_some_and(|parts| Some(parts) == plain(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{self, test_mark};
    use serde_json::{Value, json};

    const LAUNCH: &str = "dev.mcp-lifecycle.I.launch";
    const ON_END: &str = "dev.mcp-lifecycle.I.on-end";

    fn additions(policy: ReapPolicy) -> Additions {
        Additions {
            mark: test_mark(),
            policy,
            sockets: Some(("/var/run/docker.sock".into(), "/p.sock".into())),
        }
    }

    fn raw(body: &[u8], policy: ReapPolicy) -> Vec<u8> {
        rewrite(body, Kind::Container, &additions(policy))
            .unwrap()
            .0
    }

    fn rewritten(body: Value, policy: ReapPolicy) -> Value {
        serde_json::from_slice(&raw(body.to_string().as_bytes(), policy)).unwrap()
    }

    #[test]
    fn labels_are_added_wherever_there_were_none() {
        for body in [json!({}), json!({"Labels": null}), json!({"Labels": {}})] {
            let new = rewritten(body, ReapPolicy::Tied);
            assert_eq!(new["Labels"][LAUNCH], "L");
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
        for body in [
            r#"{"Labels":{"dev.mcp-lifecycle.I.launch":"x","dev.mcp-lifecycle.I.on-end":"x"}}"#,
            r#"{"Label\u017f":{"dev.mcp-lifecycle.I.launch":"x","dev.mcp-lifecycle.server":"x"}}"#,
            r#"{"labels":{"a":"b"},"LABELS":{"dev.mcp-lifecycle.I.server":"x"}}"#,
        ] {
            let new = raw(body.as_bytes(), ReapPolicy::Tied);
            let text = String::from_utf8(new).unwrap();
            assert!(!text.contains(r#":"x""#), "{text}");
            assert_eq!(
                text.to_lowercase().matches("\"labels\"").count(),
                1,
                "{text}"
            );
            let new: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(new["Labels"][LAUNCH], "L");
        }
    }

    /// A host that is the server of this one finds its containers by them.
    #[test]
    fn labels_of_other_hosts_stay() {
        let theirs =
            json!({"dev.mcp-lifecycle.J.launch": "M", "dev.mcp-lifecycle.J.on-end": "keep"});
        let new = rewritten(json!({"Labels": theirs}), ReapPolicy::All);
        let all: std::collections::HashMap<String, String> =
            serde_json::from_value(new["Labels"].clone()).unwrap();
        let found = labels::hosts(&all);
        let found: Vec<_> = found
            .iter()
            .map(|host| (host.instance, host.get("launch"), host.get("on-end")))
            .collect();
        let expected = [
            ("I", Some("L"), Some("end")),
            ("J", Some("M"), Some("keep")),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_go_reads_is_labelled() {
        let deep = format!(
            r#"{{"Unknown":{}{}}}"#,
            "[".repeat(50_000),
            "]".repeat(50_000)
        );
        for body in [
            br#"{"Env":["X=caf\udce9"]}"#.as_slice(),
            b"{\"Env\":[\"X=caf\xe9\"]}",
            br#"{"X\udce9":1}"#,
            br#"{"Unknown":1e400}"#,
            deep.as_bytes(),
        ] {
            let new = String::from_utf8(raw(body, ReapPolicy::Tied)).unwrap();
            assert!(new.contains(LAUNCH), "{:.200}", new);
        }
        let odd = br#"{"HostConfig":{"AutoRemove":true,"Binds":["/run/docker.sock:/x\udce9"]}}"#;
        let new = String::from_utf8(raw(odd, ReapPolicy::Tied)).unwrap();
        assert!(new.contains("/p.sock:/x\u{fffd}"), "{new}");
        let new = raw(b"{} garbage", ReapPolicy::Tied);
        let new = String::from_utf8(new).unwrap();
        assert!(new.contains(LAUNCH) && new.ends_with("} garbage"), "{new}");
        // The daemon fills in an empty one, and not one that is missing.
        let host = |body| rewritten(body, ReapPolicy::Tied).get("HostConfig").cloned();
        assert_eq!(host(json!({"HostConfig": {}})), Some(json!({})));
        assert_eq!(host(json!({"HostConfig": null})), None);
        // Refused for what was cleared afterwards.
        let new = raw(br#"{"Labels":{"a":1},"Labels":null}"#, ReapPolicy::Tied);
        let new = String::from_utf8(new).unwrap();
        assert!(
            new.starts_with(r#"{"Labels":{"a":1},"Labels":null,"Labels":{"#),
            "{new}"
        );
        // Of the wrong kind: the daemon says so, and sees ours.
        let new = raw(br#"{"Labels":[1],"HostConfig":7}"#, ReapPolicy::Tied);
        let new = String::from_utf8(new).unwrap();
        assert!(
            new.starts_with(r#"{"Labels":[1],"HostConfig":7,"Labels":{"#),
            "{new}"
        );
    }

    #[test]
    fn what_cannot_be_labelled_is_refused() {
        for body in [
            b"".as_slice(),
            b" ",
            b"{",
            b"[]",
            b"null",
            b"\"hunter2\"",
            b"\xef\xbb\xbf{}",
        ] {
            let error = rewrite(body, Kind::Container, &additions(ReapPolicy::All)).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn what_is_tied_ends_and_what_is_detached_stays() {
        let fate = |body, policy| rewritten(body, policy)["Labels"][ON_END].clone();
        let rm = || json!({"HostConfig": {"AutoRemove": true}});
        let attached = || json!({"OpenStdin": true, "AttachStdin": true, "StdinOnce": true});
        let detached = || json!({"OpenStdin": true, "HostConfig": {"AutoRemove": false}});
        assert_eq!(fate(rm(), ReapPolicy::Tied), "end");
        assert_eq!(fate(attached(), ReapPolicy::Tied), "end");
        assert_eq!(fate(detached(), ReapPolicy::Tied), "keep");
        assert_eq!(fate(detached(), ReapPolicy::All), "end");
        assert_eq!(fate(rm(), ReapPolicy::Report), "keep");
        let twice = raw(
            br#"{"hostconfig":{"autoremove":true},"HostConfig":{"Privileged":false}}"#,
            ReapPolicy::Tied,
        );
        let twice: Value = serde_json::from_slice(&twice).unwrap();
        assert_eq!(twice["Labels"][ON_END], "end");
        assert_eq!(
            twice["HostConfig"],
            json!({"autoremove": true, "Privileged": false})
        );
    }

    #[test]
    fn the_socket_is_ours_in_what_ends_and_the_engines_in_what_stays() {
        let with = |source: &str| {
            json!({"HostConfig": {
                "AutoRemove": true,
                "Binds": [format!("{source}:/var/run/docker.sock:rw"), "/a:/b"],
                "Mounts": [{"Type": "bind", "Source": source, "Target": "/s"}],
            }})
        };
        for theirs in [
            "/run/docker.sock",
            "/var/run/../run//docker.sock",
            "/var/run/docker.sock",
        ] {
            let new = rewritten(with(theirs), ReapPolicy::Tied);
            assert_eq!(new["HostConfig"], with("/p.sock")["HostConfig"]);
        }
        // The engine reads no mount there.
        let outside = json!({"Mounts": [{"Source": "/run/docker.sock"}]});
        let new = rewritten(outside.clone(), ReapPolicy::All);
        assert_eq!(new["Mounts"], outside["Mounts"]);
        let kept = rewritten(with("/p.sock"), ReapPolicy::Report);
        assert_eq!(
            kept["HostConfig"],
            with("/var/run/docker.sock")["HostConfig"]
        );
    }

    #[test]
    fn the_cookie_of_the_environment_does_not_go_into_containers() {
        let env = json!({"Env": ["A=1", "MCP_LIFECYCLE_ID=5.6.7", "MCP_LIFECYCLE_ID", "MCP_LIFECYCLE_IDS=1"]});
        let new = rewritten(env, ReapPolicy::Report);
        assert_eq!(new["Env"], json!(["A=1", "MCP_LIFECYCLE_IDS=1"]));
    }

    #[test]
    fn podmans_own_form() {
        let body = br#"{"remove":true,"env":{"A":"1","MCP_LIFECYCLE_ID":"x"},"mounts":[{"source":"/run/docker.sock"}]}"#;
        let (new, ends) = rewrite(body, Kind::Libpod, &additions(ReapPolicy::Tied)).unwrap();
        assert!(ends);
        let new: Value = serde_json::from_slice(&new).unwrap();
        assert_eq!(new["labels"][ON_END], "end");
        assert_eq!(new["env"], json!({"A": "1"}));
        assert_eq!(new["mounts"], json!([{"source": "/p.sock"}]));
    }
}
