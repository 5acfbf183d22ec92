use serde::Serialize;

use super::PodOptions;

mcp_lifecycle_core::setters! { PodOptions:
    /// Sets the seconds between SIGTERM and SIGKILL. 2 by default, the shortest that a kubelet
    /// supports. A forced end that follows does not shorten it (Kubernetes issue 83916).
    grace_seconds(seconds: u32) |it| it.grace_seconds = Some(seconds);
    /// Sets the user ID; the image's if unset.
    run_as_user(user: i64) |it| it.run_as_user = Some(user);
    /// Sets whether it is refused to run as root, as it is by default.
    run_as_non_root(non_root: bool) |it| it.run_as_non_root = Some(non_root);
    /// Sets whether the pod's object is kept until its end is proven, even against a forced
    /// deletion. Needs the permission to patch pods. `false` by default: a dead host's pod, and a
    /// namespace under deletion with it, remains until `reap_orphans`.
    finalizer(keep: bool) |it| it.finalizer = keep;
    /// Sets whether programs may gain privileges by set-uid.
    allow_privilege_escalation(allow: bool) |it| it.allow_privilege_escalation = allow;
    /// Adds a resource request: `("cpu", "100m")`.
    request(resource: impl Into<String>, amount: impl Into<String>) |it| it.requests.insert(resource.into(), amount.into());
    /// Adds a resource limit: `("memory", "128Mi")`.
    limit(resource: impl Into<String>, amount: impl Into<String>) |it| it.limits.insert(resource.into(), amount.into());
    /// Adds fields of the pod: a value that serializes to an object in the API's format, such as
    /// `serde_json::json!({"spec": {"hostNetwork": true}})` or the `Pod` of a client library. They
    /// win over all other options. Lists of named items (containers, volumes) are merged by name; the
    /// server's container is `server`. Unknown fields are errors, and so are fields that the server's
    /// lifecycle depends on.
    pod(patch: impl Serialize) |it| it.merge(patch, |patch| patch);
}
