mod body;
mod kinds;
mod pin;

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

pub(crate) use body::{Defaults, Plan, plan};
pub use kinds::{Init, Mount};
pub use mcp_lifecycle_core::backend::options::PullPolicy;

mcp_lifecycle_core::server_options! {
    /// The options of a container, given as the options of its server's `ServerSpec`. Configuration
    /// files use the names in `docs/configuration.md`.
    ///
    /// The defaults are safe, and each can be relaxed: no capabilities, no new privileges, at most 512
    /// processes, no log on the daemon's disk. There is never a restart policy, since a stdio session
    /// cannot be resumed.
    ///
    /// ```
    /// use mcp_launcher_docker::ContainerOptions;
    ///
    /// let spec = ContainerOptions::new("mcp/time")
    ///     .memory("256m")
    ///     .cpus(1.5)
    ///     .read_only_root(true)
    ///     .server("time")
    ///     .build()?;
    /// # Ok::<(), mcp_lifecycle_core::launch::SpecError>(())
    /// ```
    ///
    /// A value that cannot be parsed, such as a memory of `"lots"`, is an error of the specification's
    /// [`build`](mcp_lifecycle_core::launch::ServerSpecBuilder::build), which names the option.
    ContainerOptions(Init, create_body) {
        platform: Option<String>,
        mounts: Vec<Mount>,
        network: Option<String>,
        user: Option<String>,
        memory: Option<Value>,
        cpus: Option<f64>,
        pids_limit: Option<u32>,
        allow_new_privileges: bool,
        security_opt: Vec<String>,
    }
}

mcp_lifecycle_core::setters! { ContainerOptions:
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
    /// Adds a mount.
    mount(mount: Mount) |it| it.mounts.push(mount);
    /// Adds a read-only file or directory of the engine's machine.
    bind(source: impl Into<PathBuf>, target: impl Into<PathBuf>) |it| it.mounts.push(bind(source, target, false));
    /// Adds a writable file or directory of the engine's machine.
    bind_writable(source: impl Into<PathBuf>, target: impl Into<PathBuf>) |it| it.mounts.push(bind(source, target, true));
    /// Adds an empty file system in memory, of the engine's default size.
    tmpfs(target: impl Into<PathBuf>) |it| it.mounts.push(Mount::Tmpfs { target: target.into(), size: None });
    /// Sets the memory limit, swap included: a number of bytes, or `"512m"`, `"2g"`, `"1t"`, in
    /// powers of 1024 as with `docker run --memory`.
    memory(size: impl Into<Value>) |it| it.memory = Some(size.into());
    /// Adds a security option of the engine: `seccomp=…`, `label=…`.
    security_opt(option: impl Into<String>) |it| it.security_opt.push(option.into());
    /// Adds fields of the engine's create request: a value that serializes to an object in the
    /// API's format, such as `serde_json::json!({"HostConfig": {"ShmSize": 67108864}})` or the
    /// struct of a client library. They win over all other options; a null resets a field to the
    /// engine's default. Unknown fields are errors, and so are fields that the server's lifecycle
    /// depends on.
    create_body(fields: impl Serialize) |it| it.merge(fields);
}

fn bind(source: impl Into<PathBuf>, target: impl Into<PathBuf>, writable: bool) -> Mount {
    Mount::Bind {
        source: source.into(),
        target: target.into(),
        writable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_lifecycle_core::launch::ServerSpec;
    use serde_json::json;

    #[test]
    fn options_survive_the_specification() {
        let options = ContainerOptions::new("img:1")
            .memory("64m")
            .cpus(0.5)
            .bind_writable("/a", "/b")
            .create_body(json!({"HostConfig": {"ShmSize": 1}}));
        let spec = options.server("s").build().unwrap();
        assert_eq!(ContainerOptions::of(&spec).unwrap(), options);
    }

    #[test]
    fn what_the_chain_cannot_read_is_an_error_of_the_build() {
        let built = |options: ContainerOptions| {
            let error = options.server("s").build().unwrap_err();
            error.to_string()
        };
        let options = || ContainerOptions::new("i");
        for (options, expected) in [
            (options().memory("lots").cpus(-1.0), "`memory`: \"lots\""),
            (options().cpus(-1.0), "`cpus`"),
            (options().bind("/a", "b"), "`mounts`"),
            (options().create_body(1), "`create_body`"),
            (
                options().create_body(json!({"HostConfig": {"x": 1}})),
                "`HostConfig.x`",
            ),
            (options().label("dev.mcp-lifecycle.x", ""), "`labels`"),
        ] {
            let text = built(options);
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn a_configuration_file_may_use_camel_case() {
        let of = |options: &[(&str, serde_json::Value)]| {
            let spec = ServerSpec::builder_without_command("s");
            let spec = options.iter().fold(spec, |spec, (name, value)| {
                spec.option(*name, value.clone())
            });
            ContainerOptions::of(&spec.build().unwrap())
        };
        let options = of(&[
            ("readOnlyRoot", json!(true)),
            ("pidsLimit", json!(7)),
            ("createBody", json!({"HostConfig": {"ShmSize": 1}})),
        ]);
        let options = options.unwrap();
        assert!(options.read_only_root);
        assert_eq!(options.pids_limit, Some(7));
        assert_eq!(options.create_body["HostConfig"]["ShmSize"], 1);
        let twice = of(&[("pidsLimit", json!(7)), ("pids_limit", json!(8))]);
        assert!(twice.unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn a_wrong_option_is_named() {
        let of = |name: &str, value| {
            let spec = ServerSpec::builder_without_command("s").option(name, value);
            ContainerOptions::of(&spec.build().unwrap()).unwrap_err()
        };
        let text = of("imgae", json!("x")).to_string();
        assert!(text.contains("`imgae`"), "{text}");
        let text = of("cpus", json!("lots")).to_string();
        assert!(text.contains("`cpus`"), "{text}");
        let text = of("mounts", json!([{"type": "bind"}])).to_string();
        assert!(text.contains("source"), "{text}");
    }
}
