//! The options of a container as a chain.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use mcp_lifecycle_core::launch::SpecError;
use serde::Serialize;
use serde_json::Value;

use super::{ByteSize, ContainerOptions, Gpus, Init, Mount, PullPolicy};

/// Makes a setter of each line: its name and value, and the field that it sets.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($value:ident: $type:ty) $field:ident = $new:expr;)*) => {
        /// Each sets a field. What cannot be used is an error of the specification's `build`.
        impl ContainerOptions {
            $($(#[$doc])*
            #[must_use]
            pub fn $name(mut self, $value: $type) -> Self {
                self.$field = $new;
                self
            })*
        }
    };
}

setters! {
    /// Sets the id that the image must have: `sha256:` and 64 digits.
    image_id(id: impl Into<String>) image_id = Some(id.into());
    /// Sets whether an image that is named by a tag only is refused.
    pinned(pinned: bool) pinned = pinned;
    /// Sets the platform, `os[/arch[/variant]]`.
    platform(platform: impl Into<String>) platform = Some(platform.into());
    /// Sets when the image is pulled.
    pull(policy: PullPolicy) pull = Some(policy);
    /// Sets the network: `none`, `host`, `bridge`, or a name.
    network(network: impl Into<String>) network = Some(network.into());
    /// Sets the user, `user[:group]`, by name or number.
    user(user: impl Into<String>) user = Some(user.into());
    /// Sets whether nothing but mounts can be written to.
    read_only(read_only: bool) read_only_root = read_only;
    /// Sets how many processors, in parts: 1.5.
    cpus(cpus: f64) cpus = Some(cpus);
    /// Sets how many processes and threads; 0 is no limit.
    pids_limit(limit: u32) pids_limit = limit;
    /// Sets process 1.
    init(init: Init) init = Some(init);
    /// Sets how long a supervised server has from the end of its input, and again
    /// after it was asked to end; in whole milliseconds.
    init_grace(grace: Duration) init_grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
    /// Sets the GPUs that it sees.
    gpus(gpus: Gpus) gpus = Some(gpus);
    /// Sets whether programs may gain privileges by set-uid.
    allow_new_privileges(allow: bool) allow_new_privileges = allow;
    /// Sets the log driver.
    log_driver(driver: impl Into<String>) log_driver = driver.into();
    /// Sets the signal that asks to end.
    stop_signal(signal: impl Into<String>) stop_signal = Some(signal.into());
}

/// Each adds something, or reads it: what cannot be read is an error of the
/// specification's `build`.
impl ContainerOptions {
    /// Adds a mount.
    #[must_use]
    pub fn mount(mut self, mount: Mount) -> Self {
        self.mounts.push(mount);
        self
    }

    /// Adds a file or directory of the engine's machine, to be read.
    #[must_use]
    pub fn bind(self, source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        self.mount(Mount::Bind {
            source: source.into(),
            target: target.into(),
            writable: false,
        })
    }

    /// Adds a file or directory of the engine's machine, to be written to.
    #[must_use]
    pub fn bind_writable(self, source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        self.mount(Mount::Bind {
            source: source.into(),
            target: target.into(),
            writable: true,
        })
    }

    /// Adds an empty file system in memory, of the engine's default size.
    #[must_use]
    pub fn tmpfs(self, target: impl Into<PathBuf>) -> Self {
        self.mount(Mount::Tmpfs {
            target: target.into(),
            size: None,
        })
    }

    /// Sets the greatest amount of memory, swap included: `"512m"`, or a number
    /// of bytes.
    #[must_use]
    pub fn memory(mut self, size: impl TryInto<ByteSize, Error: Display>) -> Self {
        match size.try_into() {
            Ok(size) => self.memory = Some(size),
            Err(error) => self.reject("memory", &error),
        }
        self
    }

    /// Adds a device: `/dev/x`, `/dev/x:/dev/y:rwm`, or a CDI name.
    #[must_use]
    pub fn device(mut self, device: impl Into<String>) -> Self {
        self.devices.push(device.into());
        self
    }

    /// Gives a capability back, named without `CAP_`.
    #[must_use]
    pub fn cap_add(mut self, capability: impl Into<String>) -> Self {
        self.cap_add.push(capability.into());
        self
    }

    /// Adds a security option of the engine: `seccomp=…`, `label=…`.
    #[must_use]
    pub fn security_opt(mut self, option: impl Into<String>) -> Self {
        self.security_opt.push(option.into());
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Adds fields of the engine's `HostConfig`: what serializes to an object in
    /// the API's names, such as `serde_json::json!({"ShmSize": 67108864})` or the
    /// struct of a client library. They win over all other options.
    #[must_use]
    pub fn host_config(self, fields: impl Serialize) -> Self {
        match serde_json::to_value(fields) {
            Ok(fields) => self.create_body(serde_json::json!({ "HostConfig": fields })),
            Err(error) => self.rejected("create_body", &error),
        }
    }

    /// Adds fields of the engine's create request, as
    /// [`host_config`](Self::host_config) does.
    #[must_use]
    pub fn create_body(mut self, fields: impl Serialize) -> Self {
        match serde_json::to_value(fields) {
            Ok(Value::Object(fields)) => {
                mcp_lifecycle_host::fields::over(&mut self.create_body, fields)
            }
            Ok(_) => self.reject("create_body", &"is not an object"),
            Err(error) => self.reject("create_body", &error),
        }
        self
    }

    fn rejected(mut self, name: &str, problem: &dyn Display) -> Self {
        self.reject(name, problem);
        self
    }

    fn reject(&mut self, name: &str, problem: &dyn Display) {
        self.problem
            .get_or_insert_with(|| SpecError::InvalidOption {
                name: name.to_owned(),
                problem: problem.to_string(),
            });
    }
}
