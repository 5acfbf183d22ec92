use mcp_lifecycle_core::backend::fields;
use serde::Serialize;
use serde_json::Value;

use super::{Init, PodOptions, PullPolicy};

mcp_lifecycle_core::setters! { PodOptions:
    /// Sets the image.
    image(image: impl Into<String>) |it| it.image = Some(image.into());
    /// Sets when the image is pulled; the cluster's default if unset.
    pull(policy: PullPolicy) |it| it.pull = Some(policy);
    /// Sets process 1. By default the supervised init if the specification has a command, and none
    /// for an image's entry point, which the API does not reveal.
    init(init: Init) |it| it.init = Some(init);
    /// Sets the grace of a supervised server in milliseconds, from the end of its input to SIGTERM,
    /// and again to SIGKILL. 5000 by default.
    init_grace_ms(millis: u32) |it| it.init_grace_ms = Some(millis);
    /// Sets the seconds between SIGTERM and SIGKILL. 2 by default, the shortest that a kubelet
    /// supports. A forced end that follows does not shorten it (Kubernetes issue 83916).
    grace_seconds(seconds: u32) |it| it.grace_seconds = Some(seconds);
    /// Sets the user ID; the image's if unset.
    run_as_user(user: i64) |it| it.run_as_user = Some(user);
    /// Sets whether it is refused to run as root, as it is by default.
    run_as_non_root(non_root: bool) |it| it.run_as_non_root = Some(non_root);
    /// Makes the root file system read-only.
    read_only_root(read_only: bool) |it| it.read_only_root = read_only;
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
    /// Gives a capability back, named without `CAP_`: all are dropped.
    cap_add(capability: impl Into<String>) |it| it.cap_add.push(capability.into());
    /// Adds a label. Those of this crate are reserved.
    label(key: impl Into<String>, value: impl Into<String>) |it| it.labels.insert(key.into(), value.into());
    /// Adds fields of the pod: a value that serializes to an object in the API's format, such as
    /// `serde_json::json!({"spec": {"hostNetwork": true}})` or the `Pod` of a client library. They
    /// win over all other options. Lists of named items (containers, volumes) are merged by name; the
    /// server's container is `server`. Unknown fields are errors, and so are fields that the server's
    /// lifecycle depends on.
    pod(patch: impl Serialize) |it| match serde_json::to_value(patch) {
        Ok(Value::Object(patch)) => fields::over(&mut it.pod, patch),
        Ok(_) => it.reject("is not an object".to_owned()),
        Err(error) => it.reject(error.to_string()),
    };
}

impl PodOptions {
    fn reject(&mut self, problem: String) {
        self.problem.get_or_insert(fields::invalid("pod", problem));
    }
}
