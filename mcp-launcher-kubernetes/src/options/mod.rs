//! The options of a pod: [`PodOptions`].

mod body;
mod chain;
mod kinds;
mod raw;

use std::collections::BTreeMap;

use mcp_lifecycle_core::launch::{ServerSpec, ServerSpecBuilder, SpecError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use body::{Defaults, Owner, Plan, plan};
pub use kinds::{Init, PullPolicy};

/// The options of a pod, given as the options of its server's [`ServerSpec`]. In a
/// configuration file the fields have these names, or the same in camel case.
///
/// The defaults are those of the Pod Security Standard `restricted`: no root, no
/// capabilities, no new privileges, the runtime's seccomp profile; and no token of a service
/// account. Each can be relaxed. The pod is never restarted: a stdio session cannot be
/// resumed, and a server that comes back without its client is a leak.
///
/// ```
/// use mcp_launcher_kubernetes::PodOptions;
///
/// let spec = PodOptions::new("mcp/time")
///     .run_as_user(1000)
///     .request("cpu", "100m")
///     .limit("memory", "128Mi")
///     .command("time", "/server")
///     .build()?;
/// # Ok::<(), mcp_lifecycle_core::launch::SpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PodOptions {
    /// The image. Required, unless the launcher has a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The pull policy; the cluster's otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull: Option<PullPolicy>,
    /// Process 1. By default the supervised init where the specification has a command, and
    /// none where the image's own entry point runs, which the API does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<Init>,
    /// With a supervised init: how many milliseconds the server has, from the end of its
    /// input until it is asked to end, and again until it is killed. 5000 by default.
    pub init_grace_ms: u32,
    /// How many seconds the server has between SIGTERM and SIGKILL when it is asked to end.
    /// 2 by default, which is also the least: the kubelet knows no shorter one. A forced end
    /// that follows does not shorten it (Kubernetes issue 83916).
    pub grace_seconds: u32,
    /// Resources that are asked for, in the API's words: `{"cpu": "100m"}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, String>,
    /// The greatest amounts of resources: `{"memory": "128Mi"}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// The service account. Its token is not mounted, unless `mount_token` says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Mounts the token of the service account.
    pub mount_token: bool,
    /// The labels that its node must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations, in the API's words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Value>,
    /// The names of the secrets that images are pulled with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
    /// The number of its user; the image's otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_user: Option<i64>,
    /// The number of its group; the image's otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_group: Option<i64>,
    /// Refuses to run as root. `true` by default.
    pub run_as_non_root: bool,
    /// Lets nothing but volumes be written to.
    pub read_only_root: bool,
    /// Lets programs gain privileges by set-uid. They cannot, by default.
    pub allow_privilege_escalation: bool,
    /// Capabilities to give back, without `CAP_`: all are dropped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cap_add: Vec<String>,
    /// Volumes, in the API's words: `{"name": "data", "emptyDir": {}}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Value>,
    /// Mounts of the volumes, in the API's words: `{"name": "data", "mountPath": "/data"}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<Value>,
    /// More labels. Those of this crate cannot be set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Keeps the pod's object until its end is proven, also where somebody deletes it by
    /// force. The host needs the right to patch pods. A dead host's pod stays until
    /// `reap_orphans`, and with it a namespace that is deleted: so not by default.
    pub finalizer: bool,
    /// Fields of the pod, in the API's names, merged last over what the other options say:
    /// `{"spec": {"priorityClassName": "low"}}`. Lists of what has names (containers,
    /// volumes) are merged by name; the server's container is `server`. A field that the API
    /// does not have is an error, and so is one that a server's lifecycle rests on.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub pod: Map<String, Value>,
    /// The first thing in the chain that could not be read.
    #[serde(skip)]
    problem: Option<SpecError>,
}

impl Default for PodOptions {
    fn default() -> Self {
        Self {
            image: None,
            pull: None,
            init: None,
            init_grace_ms: 5000,
            grace_seconds: 2,
            requests: BTreeMap::new(),
            limits: BTreeMap::new(),
            service_account: None,
            mount_token: false,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            image_pull_secrets: Vec::new(),
            run_as_user: None,
            run_as_group: None,
            run_as_non_root: true,
            read_only_root: false,
            allow_privilege_escalation: false,
            cap_add: Vec::new(),
            volumes: Vec::new(),
            volume_mounts: Vec::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            finalizer: false,
            pod: Map::new(),
            problem: None,
        }
    }
}

impl PodOptions {
    /// The defaults, for this image.
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            image: Some(image.into()),
            ..Self::default()
        }
    }

    /// Sets these options in a specification. Options that do not hold are an error of its
    /// [`build`](ServerSpecBuilder::build).
    pub fn apply(&self, spec: ServerSpecBuilder) -> ServerSpecBuilder {
        let checked = match &self.problem {
            Some(problem) => Err(problem.clone()),
            None => body::check(self),
        };
        if let Err(error) = checked {
            return spec.reject(error);
        }
        spec.options(self)
    }

    /// Begins the specification of a server of this name that is a pod with these options,
    /// and runs what its image says.
    pub fn server(&self, name: impl Into<String>) -> ServerSpecBuilder {
        self.apply(ServerSpec::builder_without_command(name))
    }

    /// The same, running this program of the image.
    pub fn command(
        &self,
        name: impl Into<String>,
        program: impl Into<std::ffi::OsString>,
    ) -> ServerSpecBuilder {
        self.apply(ServerSpec::builder(name, program))
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
    use serde_json::json;

    use super::*;

    #[test]
    fn options_survive_the_specification() {
        let options = PodOptions::new("img:1")
            .limit("memory", "64Mi")
            .run_as_user(7)
            .init(Init::None)
            .toleration(json!({"operator": "Exists"}))
            .pod(json!({"spec": {"priorityClassName": "low"}}));
        let spec = options.server("s").build().unwrap();
        assert_eq!(PodOptions::of(&spec).unwrap(), options);
    }

    #[test]
    fn a_configuration_file_may_use_camel_case() {
        let of = |options: &[(&str, Value)]| {
            let spec = ServerSpec::builder_without_command("s");
            let spec = options.iter().fold(spec, |spec, (name, value)| {
                spec.option(*name, value.clone())
            });
            PodOptions::of(&spec.build().unwrap())
        };
        let options = of(&[("runAsUser", json!(7)), ("readOnlyRoot", json!(true))]).unwrap();
        assert_eq!(
            (options.run_as_user, options.read_only_root),
            (Some(7), true)
        );
        let twice = of(&[("runAsUser", json!(7)), ("run_as_user", json!(8))]);
        assert!(twice.unwrap_err().to_string().contains("twice"));
        let wrong = of(&[("imgae", json!("x"))]).unwrap_err().to_string();
        assert!(wrong.contains("`imgae`"), "{wrong}");
    }

    #[test]
    fn what_does_not_hold_is_an_error_of_the_build() {
        let options = || PodOptions::new("i");
        for (options, expected) in [
            (options().pod(1), "`pod`"),
            (
                options().pod(json!({"spec": {"nodeNam": "x"}})),
                "`spec.nodeNam`",
            ),
            (
                options().pod(json!({"spec": {"containers": null}})),
                "names",
            ),
            (
                options().pod(
                    json!({"spec": {"containers": [{"name": "x", "restartPolicy": "Always"}]}}),
                ),
                "lifecycle",
            ),
            (
                options().pod(json!({"spec": {"restartPolicy": "Always"}})),
                "lifecycle",
            ),
            (options().label("dev.mcp-lifecycle.x", ""), "`labels`"),
            (
                options().toleration(json!({"Operator": "x"})),
                "`spec.tolerations.Operator`",
            ),
            (options().grace_seconds(1), "`grace_seconds`"),
        ] {
            let text = options.server("s").build().unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
        }
        let none = options()
            .init(Init::Supervised)
            .server("s")
            .build()
            .unwrap();
        let owner = Owner::default();
        let error = plan(
            &none,
            PodOptions::of(&none).unwrap(),
            Defaults::default(),
            owner,
            |_| None,
        );
        assert!(error.err().unwrap().to_string().contains("`init`"));
    }
}
