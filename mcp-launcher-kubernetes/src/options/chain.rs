//! The options of a pod as a chain.

use mcp_lifecycle_core::launch::SpecError;
use mcp_lifecycle_host::fields;
use serde::Serialize;
use serde_json::Value;

use super::{Init, PodOptions, PullPolicy, body};

/// Makes a setter of each line: its name and value, and the field that it sets.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($value:ident: $type:ty) $new:expr;)*) => {
        /// Each sets a field. What cannot be used is an error of the specification's `build`.
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
    /// Sets when the image is pulled.
    pull(policy: PullPolicy) Some(policy);
    /// Sets process 1.
    init(init: Init) Some(init);
    /// Sets how many milliseconds a supervised server has from the end of its input, and again
    /// after it was asked to end.
    init_grace_ms(millis: u32) millis;
    /// Sets how many seconds the server has between SIGTERM and SIGKILL.
    grace_seconds(seconds: u32) seconds;
    /// Sets the service account.
    service_account(name: impl Into<String>) Some(name.into());
    /// Sets whether the token of the service account is mounted.
    mount_token(mount: bool) mount;
    /// Sets the number of its user.
    run_as_user(user: i64) Some(user);
    /// Sets the number of its group.
    run_as_group(group: i64) Some(group);
    /// Sets whether it is refused to run as root.
    run_as_non_root(non_root: bool) non_root;
    /// Sets whether nothing but volumes can be written to.
    read_only_root(read_only: bool) read_only;
    /// Sets whether the pod's object stays until its end is proven.
    finalizer(keep: bool) keep;
    /// Sets whether programs may gain privileges by set-uid.
    allow_privilege_escalation(allow: bool) allow;
}

/// Each adds something.
impl PodOptions {
    /// Adds a resource that is asked for: `("cpu", "100m")`.
    #[must_use]
    pub fn request(mut self, resource: impl Into<String>, amount: impl Into<String>) -> Self {
        self.requests.insert(resource.into(), amount.into());
        self
    }

    /// Adds the greatest amount of a resource: `("memory", "128Mi")`.
    #[must_use]
    pub fn limit(mut self, resource: impl Into<String>, amount: impl Into<String>) -> Self {
        self.limits.insert(resource.into(), amount.into());
        self
    }

    /// Adds a label that its node must have.
    #[must_use]
    pub fn node_selector(mut self, label: impl Into<String>, value: impl Into<String>) -> Self {
        self.node_selector.insert(label.into(), value.into());
        self
    }

    /// Adds a toleration, in the API's words.
    #[must_use]
    pub fn toleration(mut self, toleration: Value) -> Self {
        self.tolerations.push(toleration);
        self
    }

    /// Adds the name of a secret that images are pulled with.
    #[must_use]
    pub fn image_pull_secret(mut self, name: impl Into<String>) -> Self {
        self.image_pull_secrets.push(name.into());
        self
    }

    /// Gives a capability back, named without `CAP_`.
    #[must_use]
    pub fn cap_add(mut self, capability: impl Into<String>) -> Self {
        self.cap_add.push(capability.into());
        self
    }

    /// Adds a volume and the place where it is mounted, both in the API's words.
    #[must_use]
    pub fn volume(mut self, volume: Value, mount: Value) -> Self {
        self.volumes.push(volume);
        self.volume_mounts.push(mount);
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// Adds fields of the pod: what serializes to an object in the API's names, such as
    /// `serde_json::json!({"spec": {"hostNetwork": true}})` or the `Pod` of a client library.
    /// They win over all other options.
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
