use mcp_lifecycle_core::backend::fields;
use mcp_lifecycle_core::launch::SpecError;
use serde::Serialize;
use serde_json::Value;

use super::{Init, PodOptions, PullPolicy, body};

/// Generates a setter from each line: its name, its value and the field.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($value:ident: $type:ty) $new:expr;)*) => {
        /// Setters. An unusable value is an error of the specification's `build`.
        impl PodOptions {
            $($(#[$doc])*
            #[must_use]
            pub fn $name(mut self, $value: $type) -> Self {
                self.$name = $new;
                self
            })*
        }
    };
}

setters! {
    /// Sets the image.
    image(image: impl Into<String>) Some(image.into());
    /// Sets when the image is pulled; the cluster's default if unset.
    pull(policy: PullPolicy) Some(policy);
    /// Sets process 1. By default the supervised init if the specification has a command, and none
    /// for an image's entry point, which the API does not reveal.
    init(init: Init) Some(init);
    /// Sets the grace of a supervised server in milliseconds, from the end of its input to SIGTERM,
    /// and again to SIGKILL. 5000 by default.
    init_grace_ms(millis: u32) Some(millis);
    /// Sets the seconds between SIGTERM and SIGKILL. 2 by default, the shortest that a kubelet
    /// supports. A forced end that follows does not shorten it (Kubernetes issue 83916).
    grace_seconds(seconds: u32) Some(seconds);
    /// Sets the user ID; the image's if unset.
    run_as_user(user: i64) Some(user);
    /// Sets whether it is refused to run as root, as it is by default.
    run_as_non_root(non_root: bool) Some(non_root);
    /// Makes the root file system read-only.
    read_only_root(read_only: bool) read_only;
    /// Sets whether the pod's object is kept until its end is proven, even against a forced
    /// deletion. Needs the permission to patch pods. `false` by default: a dead host's pod, and a
    /// namespace under deletion with it, remains until `reap_orphans`.
    finalizer(keep: bool) keep;
    /// Sets whether programs may gain privileges by set-uid.
    allow_privilege_escalation(allow: bool) allow;
}

/// Methods that add an item.
impl PodOptions {
    /// Adds a resource request: `("cpu", "100m")`.
    #[must_use]
    pub fn request(mut self, resource: impl Into<String>, amount: impl Into<String>) -> Self {
        self.requests.insert(resource.into(), amount.into());
        self
    }

    /// Adds a resource limit: `("memory", "128Mi")`.
    #[must_use]
    pub fn limit(mut self, resource: impl Into<String>, amount: impl Into<String>) -> Self {
        self.limits.insert(resource.into(), amount.into());
        self
    }

    /// Gives a capability back, named without `CAP_`: all are dropped.
    #[must_use]
    pub fn cap_add(mut self, capability: impl Into<String>) -> Self {
        self.cap_add.push(capability.into());
        self
    }

    /// Adds a label. Those of this crate are reserved.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Adds fields of the pod: a value that serializes to an object in the API's format, such as
    /// `serde_json::json!({"spec": {"hostNetwork": true}})` or the `Pod` of a client library. They
    /// win over all other options. Lists of named items (containers, volumes) are merged by name; the
    /// server's container is `server`. Unknown fields are errors, and so are fields that the server's
    /// lifecycle depends on.
    #[must_use]
    pub fn pod(mut self, patch: impl Serialize) -> Self {
        match serde_json::to_value(patch) {
            Ok(Value::Object(patch)) => fields::over(&mut self.pod, patch),
            Ok(_) => self.reject(body::invalid("pod", "is not an object")),
            Err(error) => self.reject(body::invalid("pod", error.to_string())),
        }
        self
    }

    fn reject(&mut self, error: SpecError) {
        self.problem.get_or_insert(error);
    }
}
