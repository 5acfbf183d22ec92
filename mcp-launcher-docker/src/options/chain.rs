//! The options of a container as a chain.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use mcp_lifecycle_core::launch::SpecError;
use serde::Serialize;
use serde_json::Value;

use super::raw;
use super::{ByteSize, ContainerOptions, Gpus, Init, Mount, PullPolicy};

/// Each sets the field of its name. What cannot be read is an error of the
/// specification's `build`.
impl ContainerOptions {
    /// Sets the id that the image must have: `sha256:` and 64 digits.
    #[must_use]
    pub fn image_id(mut self, id: impl Into<String>) -> Self {
        self.image_id = Some(id.into());
        self
    }

    /// Sets whether an image that is named by a tag only is refused.
    #[must_use]
    pub fn pinned(mut self, pinned: bool) -> Self {
        self.pinned = pinned;
        self
    }

    /// Sets the platform, `os[/arch[/variant]]`.
    #[must_use]
    pub fn platform(mut self, platform: impl Into<String>) -> Self {
        self.platform = Some(platform.into());
        self
    }

    /// Sets when the image is pulled.
    #[must_use]
    pub fn pull(mut self, policy: PullPolicy) -> Self {
        self.pull = Some(policy);
        self
    }

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

    /// Sets the network: `none`, `host`, `bridge`, or a name.
    #[must_use]
    pub fn network(mut self, network: impl Into<String>) -> Self {
        self.network = Some(network.into());
        self
    }

    /// Sets the user, `user[:group]`, by name or number.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets whether nothing but mounts can be written to.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only_root = read_only;
        self
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

    /// Sets how many processors, in parts: 1.5.
    #[must_use]
    pub fn cpus(mut self, cpus: f64) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Sets how many processes and threads; 0 is no limit.
    #[must_use]
    pub fn pids_limit(mut self, limit: u32) -> Self {
        self.pids_limit = limit;
        self
    }

    /// Sets process 1.
    #[must_use]
    pub fn init(mut self, init: Init) -> Self {
        self.init = Some(init);
        self
    }

    /// Sets how long a supervised server has from the end of its input, and again
    /// after it was asked to end; in whole milliseconds.
    #[must_use]
    pub fn init_grace(mut self, grace: Duration) -> Self {
        self.init_grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        self
    }

    /// Sets the GPUs that it sees.
    #[must_use]
    pub fn gpus(mut self, gpus: Gpus) -> Self {
        self.gpus = Some(gpus);
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

    /// Sets whether programs may gain privileges by set-uid.
    #[must_use]
    pub fn allow_new_privileges(mut self, allow: bool) -> Self {
        self.allow_new_privileges = allow;
        self
    }

    /// Adds a security option of the engine: `seccomp=…`, `label=…`.
    #[must_use]
    pub fn security_opt(mut self, option: impl Into<String>) -> Self {
        self.security_opt.push(option.into());
        self
    }

    /// Sets the log driver.
    #[must_use]
    pub fn log_driver(mut self, driver: impl Into<String>) -> Self {
        self.log_driver = driver.into();
        self
    }

    /// Sets the signal that asks to end.
    #[must_use]
    pub fn stop_signal(mut self, signal: impl Into<String>) -> Self {
        self.stop_signal = Some(signal.into());
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
            Ok(Value::Object(fields)) => raw::over(&mut self.create_body, fields),
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
