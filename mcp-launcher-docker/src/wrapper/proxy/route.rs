//! Routes a request by its effect. Pure. Wider than the daemon's own routes: a possible creation
//! counts as one, and superfluous labels do no harm.

use hyper::{Method, Uri};
use percent_encoding::percent_decode_str;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Create(Kind),
    Unlabelled(&'static str),
    /// Makes an image of a container, which would inherit its labels.
    Commit,
    /// A build: runs unlabelled containers, which are gone with its response.
    Build,
    /// A request that may turn the connection into a byte stream.
    Tunnel,
    /// A request that the daemon answers, or goes on answering, when something happens.
    Waiting,
    Other,
    /// A request to an HTTP proxy rather than to a daemon.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Container,
    Libpod,
}

pub(super) fn route(method: &Method, target: &Uri) -> Route {
    if method == Method::CONNECT {
        return Route::Nothing;
    }
    let path = percent_decode_str(target.path()).decode_utf8_lossy();
    let segments = segments(&path);
    let libpod = segments.contains(&"libpod");
    let posts = method == Method::POST;
    match &segments[..] {
        [.., "containers", _, "attach"] | [.., "exec", _, "start"] if posts => Route::Tunnel,
        [.., "session" | "grpc"] if posts => Route::Tunnel,
        [.., "attach", "ws"] if method == Method::GET => Route::Tunnel,
        [.., "containers", _, "wait"] if posts => Route::Waiting,
        [.., "events"] => Route::Waiting,
        [.., "logs"] if is_set(target, "follow", false) => Route::Waiting,
        [.., "stats"] if is_set(target, "stream", true) => Route::Waiting,
        // Daemons create by POST only.
        _ if method == Method::GET || method == Method::HEAD || method == Method::DELETE => {
            Route::Other
        }
        [.., "containers", "create"] if libpod => Route::Create(Kind::Libpod),
        [.., "containers", "create"] => Route::Create(Kind::Container),
        [.., "play", "kube"] | [.., "kube", "play" | "apply"] => Route::Unlabelled("`kube play`"),
        [.., "pods", "create"] if libpod => Route::Unlabelled("a pod"),
        [.., "restore"] if target.query().is_some_and(|q| q.contains("import")) => {
            Route::Unlabelled("an imported checkpoint")
        }
        [.., "commit"] => Route::Commit,
        [.., "build"] => Route::Build,
        _ => Route::Other,
    }
}

fn is_set(target: &Uri, flag: &str, default: bool) -> bool {
    let pairs = target.query().unwrap_or_default().split('&');
    let mut values = pairs.filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (percent_decode_str(name).decode_utf8_lossy() == flag).then_some(value)
    });
    let is_false = |value: &str| {
        let value = percent_decode_str(value).decode_utf8_lossy();
        let value = value.trim().to_lowercase();
        ["", "0", "no", "false", "none"].contains(&value.as_str())
    };
    values.next().map_or(default, |value| !is_false(value))
}

/// Normalizes a path as widely as possible: without empty segments and dots.
pub(super) fn segments(path: &str) -> Vec<&str> {
    path.split('/').fold(Vec::new(), |mut all, segment| {
        match segment {
            "" | "." => {}
            ".." => drop(all.pop()),
            segment => all.push(segment),
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(target: &str) -> Route {
        route(&Method::POST, &target.parse().unwrap())
    }

    #[test]
    fn creates_are_recognised_however_they_are_written() {
        for target in [
            "/containers/create",
            "/v1.41/containers/create?name=x",
            "/containers/%63reate",
            "/v1.41%2Fcontainers%2fcreate",
            "http://docker/v1.41/containers/create",
            "//containers//create/",
            "/x/../containers/./create",
        ] {
            assert_eq!(post(target), Route::Create(Kind::Container), "{target}");
        }
        assert_eq!(
            post("/v4.0.0/libpod/containers/create"),
            Route::Create(Kind::Libpod)
        );
        let put = route(&Method::PUT, &"/containers/create".parse().unwrap());
        assert_eq!(put, Route::Create(Kind::Container));
        assert_eq!(post("/volumes/create"), Route::Other);
        assert_eq!(post("/commit?container=x"), Route::Commit);
        assert_eq!(post("/v1.41/build?q=1"), Route::Build);
    }

    #[test]
    fn others_pass_and_only_those_become_streams_that_can() {
        for target in [
            "/v1.41/containers/create/start",
            "/containers/abc/start",
            "/images/create?fromImage=containers/create",
            "/containers/abc/exec",
            "/containers/x/attach/ws",
            "/pods/create",
        ] {
            assert_eq!(post(target), Route::Other, "{target}");
        }
        for method in [Method::GET, Method::HEAD, Method::DELETE] {
            for target in [
                "/containers/create",
                "/containers/x/attach",
                "/exec/x/start",
            ] {
                let found = route(&method, &target.parse().unwrap());
                assert_eq!(found, Route::Other, "{method} {target}");
            }
        }
        let proxied = route(&Method::CONNECT, &"d:80".parse().unwrap());
        assert_eq!(proxied, Route::Nothing);
        let get = |target: &str| route(&Method::GET, &target.parse().unwrap());
        assert_eq!(get("/containers/create"), Route::Other);
        assert_eq!(get("/containers/session"), Route::Other);
        assert_eq!(get("/_ping"), Route::Other);
        assert_eq!(get("/containers/x/attach/ws"), Route::Tunnel);
        for target in [
            "/containers/x/attach?stdin=1",
            "/v1.41/exec/x/start",
            "/session",
            "/v1.41/grpc",
        ] {
            assert_eq!(post(target), Route::Tunnel, "{target}");
        }
    }

    #[test]
    fn requests_that_wait_have_places_of_their_own() {
        let get = |target: &str| route(&Method::GET, &target.parse().unwrap());
        for target in [
            "/v1.41/events?since=0",
            "/containers/x/logs?stdout=1&follow=1",
            "/services/x/logs?f%6fllow=true",
            "/containers/x/stats",
            "/libpod/containers/x/stats?stream=true",
        ] {
            assert_eq!(get(target), Route::Waiting, "{target}");
        }
        for target in [
            "/containers/x/logs?stdout=1",
            "/containers/x/logs?follow=false&follow=1",
            "/containers/x/stats?stream=0",
            "/containers/x/wait",
        ] {
            assert_eq!(get(target), Route::Other, "{target}");
        }
        for target in [
            "/containers/x/wait",
            "/v4/libpod/containers/x/wait?condition=exited",
        ] {
            assert_eq!(post(target), Route::Waiting, "{target}");
        }
    }

    #[test]
    fn what_creates_and_cannot_be_labelled_is_told() {
        for target in [
            "/v4.0.0/libpod/play/kube",
            "/libpod/kube/apply",
            "/libpod/kube/play",
            "/libpod/pods/create",
            "/libpod/containers/x/restore?import=true",
        ] {
            assert!(matches!(post(target), Route::Unlabelled(_)), "{target}");
        }
        for target in [
            "/libpod/containers/x/restore",
            "/containers/x/restore?keep=1",
        ] {
            assert_eq!(post(target), Route::Other, "{target}");
        }
    }
}
