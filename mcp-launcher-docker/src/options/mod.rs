//! The options of a container: [`ContainerOptions`].

mod body;
mod chain;
mod devices;
mod kinds;
mod pin;
mod raw;
mod size;

use std::collections::BTreeMap;

use mcp_lifecycle_core::launch::{ServerSpec, ServerSpecBuilder, SpecError};
use serde::{Deserialize, Serialize};

pub(crate) use body::{Defaults, Plan, plan};
pub use kinds::{Gpus, Init, Mount, PullPolicy};
pub use size::ByteSize;

/// The options of a container, given as the options of its server's
/// [`ServerSpec`]. In a configuration file the fields have these names, or the same
/// in camel case; `docs/configuration.md` lists them.
///
/// The defaults are safe ones, each of which can be relaxed: no capabilities,
/// no new privileges, at most 512 processes, no log on the daemon's disk.
/// There is never a restart policy: a stdio session cannot be resumed, and a
/// container that comes back without its client is a leak.
///
/// ```
/// use mcp_launcher_docker::ContainerOptions;
///
/// let spec = ContainerOptions::new("mcp/time")
///     .memory("256m")
///     .cpus(1.5)
///     .read_only(true)
///     .server("time")
///     .build()?;
/// # Ok::<(), mcp_lifecycle_core::launch::SpecError>(())
/// ```
///
/// What the chain cannot read, such as a memory of `"lots"`, is an error of the
/// specification's [`build`](ServerSpecBuilder::build), which names the option.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ContainerOptions {
    /// The image. Required, unless the launcher has a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The id that the image must have: `sha256:` and 64 digits. That image is
    /// run, or none. `image` says where to pull it from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Refuses an image that is named by a tag only: it needs a digest
    /// (`name@sha256:…`) or an `image_id`.
    pub pinned: bool,
    /// `os[/arch[/variant]]`, where the image has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// The pull policy; the launcher's otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull: Option<PullPolicy>,
    /// The mounts of the container.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// The network: `none`, `host`, `bridge`, or a name. The engine's default
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// `user[:group]`, by name or number; the image's otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Nothing but mounts can be written to. In a configuration file also
    /// `read_only`.
    #[serde(alias = "read_only")]
    pub read_only_root: bool,
    /// The greatest amount of memory, swap included. No limit otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// The number of processors, in parts: 1.5. No limit otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// The number of processes and threads: 512 by default; 0 is no limit.
    pub pids_limit: u32,
    /// Process 1; the launcher's default otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<Init>,
    /// With a supervised init: how many milliseconds the server has, from the
    /// end of its input until it is asked to end, and again until it is
    /// killed. 5000 by default. An end in order is not to be overtaken by it:
    /// it should not be shorter than the graces of the client's policy.
    pub init_grace_ms: u32,
    /// The GPUs that it sees. None, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Gpus>,
    /// Devices, as with `docker run --device`: `/dev/x`, `/dev/x:/dev/y:rwm`, or the
    /// name of a CDI device, `vendor.com/class=name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Capabilities to give back, without `CAP_`: all are dropped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cap_add: Vec<String>,
    /// Lets programs gain privileges by set-uid. They cannot, by default.
    pub allow_new_privileges: bool,
    /// Further security options of the engine: `seccomp=…`, `label=…`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_opt: Vec<String>,
    /// The log driver; `none` by default. Others write the traffic of the
    /// protocol to the daemon's disk, secrets in it included.
    pub log_driver: String,
    /// The signal that asks to end; the image's otherwise, or else SIGTERM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
    /// More labels. Those of this crate cannot be set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Fields of the engine's own create request, in its names, merged last over
    /// what the other options say: `{"HostConfig": {"ShmSize": 67108864}}`. A
    /// `null` takes a field back to the engine's default. A field that the API
    /// does not have is an error, and so is one that a server's lifecycle rests on.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub create_body: serde_json::Map<String, serde_json::Value>,
    /// The first thing in the chain that could not be read.
    #[serde(skip)]
    problem: Option<SpecError>,
}

impl Default for ContainerOptions {
    fn default() -> Self {
        Self {
            image: None,
            image_id: None,
            pinned: false,
            platform: None,
            pull: None,
            mounts: Vec::new(),
            network: None,
            user: None,
            read_only_root: false,
            memory: None,
            cpus: None,
            pids_limit: 512,
            init: None,
            init_grace_ms: 5000,
            gpus: None,
            devices: Vec::new(),
            cap_add: Vec::new(),
            allow_new_privileges: false,
            security_opt: Vec::new(),
            log_driver: "none".to_owned(),
            stop_signal: None,
            labels: BTreeMap::new(),
            create_body: serde_json::Map::new(),
            problem: None,
        }
    }
}

impl ContainerOptions {
    /// The defaults, for this image.
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            image: Some(image.into()),
            ..Self::default()
        }
    }

    /// Sets these options in a specification. Options that do not hold are an
    /// error of its [`build`](ServerSpecBuilder::build).
    pub fn apply(&self, spec: ServerSpecBuilder) -> ServerSpecBuilder {
        if let Err(error) = self.check() {
            return spec.reject(error);
        }
        spec.options(self)
    }

    /// Begins the specification of a server of this name that is a container with
    /// these options, and runs what its image says.
    pub fn server(&self, name: impl Into<String>) -> ServerSpecBuilder {
        self.apply(ServerSpec::builder_without_command(name))
    }

    fn check(&self) -> Result<(), SpecError> {
        match &self.problem {
            Some(problem) => Err(problem.clone()),
            None => body::check(self),
        }
    }

    /// Reads the options of a specification.
    ///
    /// # Errors
    ///
    /// [`SpecError::InvalidOption`] names the first that is wrong.
    pub fn of(spec: &ServerSpec) -> Result<Self, SpecError> {
        spec.read_options()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_survive_the_specification() {
        let options = ContainerOptions::new("img:1")
            .memory("64m")
            .cpus(0.5)
            .bind_writable("/a", "/b")
            .gpus(Gpus::Devices(vec!["0".to_owned()]))
            .device("/dev/fuse")
            .host_config(json!({"ShmSize": 1}));
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
            (options().memory("lots").cpus(-1.0), "`memory`: `lots`"),
            (options().cpus(-1.0), "`cpus`"),
            (options().bind("/a", "b"), "`mounts`"),
            (options().device("fuse"), "`devices`: `fuse`"),
            (options().pinned(true), "`image`: `i`"),
            (options().image_id("i"), "`image_id`"),
            (options().create_body(1), "`create_body`"),
            (options().host_config(json!({"x": 1})), "`HostConfig.x`"),
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
        assert_eq!(options.pids_limit, 7);
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
        let text = of("memory", json!("lots")).to_string();
        assert!(text.contains("`memory`"), "{text}");
        let text = of("mounts", json!([{"type": "bind"}])).to_string();
        assert!(text.contains("source"), "{text}");
    }
}
