use std::fmt::Display;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::json;

use super::{ByteSize, ContainerOptions, Mount};

mcp_lifecycle_core::setters! { ContainerOptions:
    /// Sets the required ID of the image: `sha256:` and 64 digits. The image says where to pull it
    /// from.
    image_id(id: impl Into<String>) |it| it.image_id = Some(id.into());
    /// Sets whether the image needs a digest (`name@sha256:…`) or an ID.
    pinned(pinned: bool) |it| it.pinned = pinned;
    /// Sets the platform, `os[/arch[/variant]]`, for images with several.
    platform(platform: impl Into<String>) |it| it.platform = Some(platform.into());
    /// Sets the network: `none`, `host`, `bridge`, or a name. The engine's default if unset.
    network(network: impl Into<String>) |it| it.network = Some(network.into());
    /// Sets the user, `user[:group]`, by name or number. The image's if unset.
    user(user: impl Into<String>) |it| it.user = Some(user.into());
    /// Sets the number of processors, such as 1.5. No limit if unset.
    cpus(cpus: f64) |it| it.cpus = Some(cpus);
    /// Sets the number of processes and threads: 512 by default; 0 is no limit.
    pids_limit(limit: u32) |it| it.pids_limit = Some(limit);
    /// Sets whether programs may gain privileges by set-uid.
    allow_new_privileges(allow: bool) |it| it.allow_new_privileges = allow;
    /// Sets the log driver; `none` by default. Others write the protocol's traffic, including
    /// secrets, to the daemon's disk.
    log_driver(driver: impl Into<String>) |it| it.log_driver = Some(driver.into());
    /// Sets the stop signal. The image's if unset, or else SIGTERM.
    stop_signal(signal: impl Into<String>) |it| it.stop_signal = Some(signal.into());
    /// Adds a mount.
    mount(mount: Mount) |it| it.mounts.push(mount);
    /// Adds a read-only file or directory of the engine's machine.
    bind(source: impl Into<PathBuf>, target: impl Into<PathBuf>) |it| it.mounts.push(bind(source, target, false));
    /// Adds a writable file or directory of the engine's machine.
    bind_writable(source: impl Into<PathBuf>, target: impl Into<PathBuf>) |it| it.mounts.push(bind(source, target, true));
    /// Adds an empty file system in memory, of the engine's default size.
    tmpfs(target: impl Into<PathBuf>) |it| it.mounts.push(Mount::Tmpfs { target: target.into(), size: None });
    /// Sets the memory limit, swap included: `"512m"`, or a number of bytes.
    memory(size: impl TryInto<ByteSize, Error: Display>) |it| match size.try_into() {
        Ok(size) => it.memory = Some(size),
        Err(error) => it.reject("memory", error.to_string()),
    };
    /// Adds a security option of the engine: `seccomp=…`, `label=…`.
    security_opt(option: impl Into<String>) |it| it.security_opt.push(option.into());
    /// Adds fields of the engine's `HostConfig`: a value that serializes to an object in the API's
    /// format, such as `serde_json::json!({"ShmSize": 67108864})` or the struct of a client
    /// library. They win over all other options; a null resets a field to the engine's default.
    /// Unknown fields are errors, and so are fields that the server's lifecycle depends on.
    host_config(fields: impl Serialize) |it| it.merge(fields, |fields| json!({ "HostConfig": fields }));
    /// Adds fields of the engine's create request, like [`host_config`](Self::host_config).
    create_body(fields: impl Serialize) |it| it.merge(fields, |fields| fields);
}

fn bind(source: impl Into<PathBuf>, target: impl Into<PathBuf>, writable: bool) -> Mount {
    Mount::Bind {
        source: source.into(),
        target: target.into(),
        writable,
    }
}
