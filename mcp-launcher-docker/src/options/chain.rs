use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use mcp_lifecycle_core::launch::SpecError;
use serde::Serialize;
use serde_json::Value;

use super::{ByteSize, ContainerOptions, Init, Mount, PullPolicy};

/// Generates a setter from each line: its name, its value and the field.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($value:ident: $type:ty) $field:ident = $new:expr;)*) => {
        /// Setters. An unusable value is an error of the specification's `build`.
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
    /// Sets the image.
    image(image: impl Into<String>) image = Some(image.into());
    /// Sets the required ID of the image: `sha256:` and 64 digits. The image says where to pull it
    /// from.
    image_id(id: impl Into<String>) image_id = Some(id.into());
    /// Sets whether the image needs a digest (`name@sha256:…`) or an ID.
    pinned(pinned: bool) pinned = pinned;
    /// Sets the platform, `os[/arch[/variant]]`, for images with several.
    platform(platform: impl Into<String>) platform = Some(platform.into());
    /// Sets when the image is pulled, instead of the launcher's policy.
    pull(policy: PullPolicy) pull = Some(policy);
    /// Sets the network: `none`, `host`, `bridge`, or a name. The engine's default if unset.
    network(network: impl Into<String>) network = Some(network.into());
    /// Sets the user, `user[:group]`, by name or number. The image's if unset.
    user(user: impl Into<String>) user = Some(user.into());
    /// Makes the root file system read-only.
    read_only(read_only: bool) read_only_root = read_only;
    /// Sets the number of processors, such as 1.5. No limit if unset.
    cpus(cpus: f64) cpus = Some(cpus);
    /// Sets the number of processes and threads: 512 by default; 0 is no limit.
    pids_limit(limit: u32) pids_limit = Some(limit);
    /// Sets process 1, instead of the launcher's default.
    init(init: Init) init = Some(init);
    /// Sets the grace of a supervised server, from the end of its input to SIGTERM, and again to
    /// SIGKILL; in whole milliseconds, 5 s by default. Should not be shorter than the graces of the
    /// client's policy, which it would cut short.
    init_grace(grace: Duration) init_grace_ms = Some(u32::try_from(grace.as_millis()).unwrap_or(u32::MAX));
    /// Sets whether programs may gain privileges by set-uid.
    allow_new_privileges(allow: bool) allow_new_privileges = allow;
    /// Sets the log driver; `none` by default. Others write the protocol's traffic, including
    /// secrets, to the daemon's disk.
    log_driver(driver: impl Into<String>) log_driver = Some(driver.into());
    /// Sets the stop signal. The image's if unset, or else SIGTERM.
    stop_signal(signal: impl Into<String>) stop_signal = Some(signal.into());
}

/// Methods that add or parse an item. An unusable value is an error of the specification's `build`.
impl ContainerOptions {
    /// Adds a mount.
    #[must_use]
    pub fn mount(mut self, mount: Mount) -> Self {
        self.mounts.push(mount);
        self
    }

    /// Adds a read-only file or directory of the engine's machine.
    #[must_use]
    pub fn bind(self, source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        self.mount(Mount::Bind {
            source: source.into(),
            target: target.into(),
            writable: false,
        })
    }

    /// Adds a writable file or directory of the engine's machine.
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

    /// Sets the memory limit, swap included: `"512m"`, or a number of bytes.
    #[must_use]
    pub fn memory(mut self, size: impl TryInto<ByteSize, Error: Display>) -> Self {
        match size.try_into() {
            Ok(size) => self.memory = Some(size),
            Err(error) => self.reject("memory", &error),
        }
        self
    }

    /// Gives a capability back, named without `CAP_`: all are dropped.
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

    /// Adds a label. Those of this crate are reserved.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Adds fields of the engine's `HostConfig`: a value that serializes to an object in the API's
    /// format, such as `serde_json::json!({"ShmSize": 67108864})` or the struct of a client
    /// library. They win over all other options; a null resets a field to the engine's default.
    /// Unknown fields are errors, and so are fields that the server's lifecycle depends on.
    #[must_use]
    pub fn host_config(self, fields: impl Serialize) -> Self {
        match serde_json::to_value(fields) {
            Ok(fields) => self.create_body(serde_json::json!({ "HostConfig": fields })),
            Err(error) => self.rejected("create_body", &error),
        }
    }

    /// Adds fields of the engine's create request, like [`host_config`](Self::host_config).
    #[must_use]
    pub fn create_body(mut self, fields: impl Serialize) -> Self {
        match serde_json::to_value(fields) {
            Ok(Value::Object(fields)) => {
                mcp_lifecycle_core::backend::fields::over(&mut self.create_body, fields)
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
