//! The routing of a request, by what it does. Pure.
//!
//! Wider than the daemon's own routes: what might be a create for any daemon is
//! one here, and labels do no harm in what is none.

use hyper::{Method, Uri};
use percent_encoding::percent_decode_str;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// It creates something that is labelled.
    Create(Kind),
    /// It creates containers by other means, which are named.
    Unlabelled(&'static str),
    /// It makes an image of a container, which would inherit its labels.
    Commit,
    /// A build: it runs containers that have no labels, and are gone with its answer.
    Build,
    /// A request after which the connection may become a stream of bytes.
    Tunnel,
    /// Anything else.
    Other,
    /// There is no such thing: a proxy request, not one to a daemon.
    Nothing,
}

/// The kind of object that a request creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A container, by Docker's API.
    Container,
    /// A container, by Podman's own API.
    Libpod,
    /// A network, volume or service: labelled, and never ended.
    Lasting,
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
        // A daemon creates by POST alone, today.
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
        [.., "networks" | "volumes" | "services", "create"] if !libpod => {
            Route::Create(Kind::Lasting)
        }
        [.., "commit"] => Route::Commit,
        [.., "build"] => Route::Build,
        _ => Route::Other,
    }
}

/// The path as the widest reading has it: no empty ones, and no dots.
fn segments(path: &str) -> Vec<&str> {
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
        assert_eq!(post("/volumes/create"), Route::Create(Kind::Lasting));
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
        ] {
            assert_eq!(post(target), Route::Other, "{target}");
        }
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
    fn what_creates_and_cannot_be_labelled_is_told() {
        for target in [
            "/v4.0.0/libpod/play/kube",
            "/libpod/kube/apply",
            "/libpod/pods/create",
            "/libpod/containers/x/restore?import=true",
        ] {
            assert!(matches!(post(target), Route::Unlabelled(_)), "{target}");
        }
        assert_eq!(post("/libpod/containers/x/restore"), Route::Other);
    }
}
