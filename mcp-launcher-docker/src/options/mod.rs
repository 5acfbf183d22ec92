//! What a server says about its container: [`ContainerOptions`].

mod body;
mod size;

use std::collections::BTreeMap;
use std::path::PathBuf;

use mcp_lifecycle_core::spec::SpecError;
use mcp_lifecycle_core::{ServerSpec, spec::ServerSpecBuilder};
use serde::{Deserialize, Serialize};

pub(crate) use body::{Defaults, Plan, plan};
pub use size::ByteSize;

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PullPolicy {
    /// When the engine does not have it.
    #[default]
    Missing,
    /// Before every launch.
    Always,
    /// Never: a missing image is an error.
    Never,
}

/// Who is process 1 of the container, where signals and orphans arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Init {
    /// The engine's own init, as with `docker run --init`: it forwards SIGTERM
    /// and reaps. Without it a server that has no handler for SIGTERM cannot
    /// be asked to end.
    #[default]
    Engine,
    /// The server itself: for images that bring an init of their own.
    None,
    /// An init of this crate, which also watches the server's input: when the
    /// host has gone, however it died, the server has
    /// [`init_grace_ms`](ContainerOptions::init_grace_ms) to leave, is asked to
    /// end, and is killed after the same time again. Nobody else is needed for
    /// that. It is copied into the container; with a read-only root it is
    /// mounted, which needs an engine on this machine. Linux on `x86_64` and
    /// `aarch64`, and the image must be for the same. More than about 64 KiB
    /// that the server has not read hide the end of its input.
    Supervised,
}

/// Something that the container sees of what is outside of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum Mount {
    /// A file or directory of the daemon's machine.
    Bind {
        /// Its path there.
        source: PathBuf,
        /// Its path in the container.
        target: PathBuf,
        /// Whether it can be written to. It cannot, unless this says so.
        #[serde(default)]
        writable: bool,
    },
    /// A named volume.
    Volume {
        /// Its name.
        source: String,
        /// Its path in the container.
        target: PathBuf,
        /// Whether it can be written to. It cannot, unless this says so.
        #[serde(default)]
        writable: bool,
    },
    /// A file system in memory, empty at first.
    Tmpfs {
        /// Its path in the container.
        target: PathBuf,
        /// Its greatest size; the engine's default otherwise.
        #[serde(default)]
        size: Option<ByteSize>,
    },
}

/// What a server says about its container, as the options of its
/// [`ServerSpec`]. In a configuration file the fields have these names.
///
/// The defaults are safe ones, each of which can be relaxed: no capabilities,
/// no new privileges, at most 512 processes, no log on the daemon's disk.
/// There is never a restart policy: a stdio session cannot be resumed, and a
/// container that comes back without its client is a leak.
///
/// ```
/// use mcp_lifecycle_core::ServerSpec;
/// use mcp_launcher_docker::ContainerOptions;
///
/// let mut options = ContainerOptions::new("mcp/time");
/// options.memory = Some("256m".parse()?);
/// options.read_only_root = true;
/// let spec = options.apply(ServerSpec::builder_without_command("time")).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ContainerOptions {
    /// The image. Required, unless the launcher has a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// `os[/arch[/variant]]`, where the image has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// When to pull; the launcher's policy otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull: Option<PullPolicy>,
    /// What the container sees of the outside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// The network: `none`, `host`, `bridge`, or a name. The engine's default
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// `user[:group]`, by name or number; the image's otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Nothing but mounts can be written to.
    pub read_only_root: bool,
    /// The greatest amount of memory, swap included. No limit otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// How many processors, in parts: 1.5. No limit otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// How many processes and threads: 512 by default; 0 is no limit.
    pub pids_limit: u32,
    /// Process 1; the launcher's default otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<Init>,
    /// With a supervised init: how many milliseconds the server has, from the
    /// end of its input until it is asked to end, and again until it is
    /// killed. 5000 by default. An end in order is not to be overtaken by it:
    /// it should not be shorter than the graces of the client's policy.
    pub init_grace_ms: u32,
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
}

impl Default for ContainerOptions {
    fn default() -> Self {
        Self {
            image: None,
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
            cap_add: Vec::new(),
            allow_new_privileges: false,
            security_opt: Vec::new(),
            log_driver: "none".to_owned(),
            stop_signal: None,
            labels: BTreeMap::new(),
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

    /// Sets these options in a specification.
    pub fn apply(&self, spec: ServerSpecBuilder) -> ServerSpecBuilder {
        let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(self) else {
            // A struct of strings, numbers and lists always is an object.
            return spec;
        };
        fields
            .into_iter()
            .fold(spec, |spec, (name, value)| spec.option(name, value))
    }

    /// Reads the options of a specification.
    ///
    /// # Errors
    ///
    /// [`SpecError::InvalidOption`] names the first that is wrong.
    pub fn of(spec: &ServerSpec) -> Result<Self, SpecError> {
        // One by one first, so that the error can name the option.
        for (name, value) in spec.options() {
            let one = serde_json::Map::from_iter([(name.clone(), value.clone())]);
            serde_json::from_value::<Self>(one.into()).map_err(|error| {
                SpecError::InvalidOption {
                    name: name.clone(),
                    problem: error.to_string(),
                }
            })?;
        }
        let options = serde_json::Value::Object(spec.options().clone());
        serde_json::from_value(options).map_err(|error| SpecError::InvalidOption {
            name: "options".to_owned(),
            problem: error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_survive_the_specification() {
        let mut options = ContainerOptions::new("img:1");
        options.memory = Some("64m".parse().unwrap());
        options.mounts.push(Mount::Bind {
            source: "/a".into(),
            target: "/b".into(),
            writable: true,
        });
        let spec = options.apply(ServerSpec::builder_without_command("s"));
        assert_eq!(
            ContainerOptions::of(&spec.build().unwrap()).unwrap(),
            options
        );
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
