mod body;
mod chain;
mod kinds;
mod raw;

use std::collections::BTreeMap;

use mcp_lifecycle_core::launch::{ServerSpec, ServerSpecBuilder, SpecError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use body::{Defaults, Owner, Plan, plan};
pub use kinds::Init;
pub use mcp_lifecycle_core::backend::options::PullPolicy;

/// The options of a pod, given as the options of its server's [`ServerSpec`]. Configuration files
/// use the names in `docs/kubernetes.md`. Everything else of a pod is set by [`pod`](Self::pod), in
/// the API's format.
///
/// The defaults follow the Pod Security Standard `restricted`: no root, no capabilities, no new
/// privileges, the runtime's seccomp profile; and no service account token. Each can be relaxed.
/// The pod never restarts, since a stdio session cannot be resumed.
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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[must_use = "options do nothing until they are applied"]
pub struct PodOptions {
    image: Option<String>,
    pull: Option<PullPolicy>,
    init: Option<Init>,
    init_grace_ms: Option<u32>,
    grace_seconds: Option<u32>,
    requests: BTreeMap<String, String>,
    limits: BTreeMap<String, String>,
    run_as_user: Option<i64>,
    run_as_non_root: Option<bool>,
    read_only_root: bool,
    allow_privilege_escalation: bool,
    cap_add: Vec<String>,
    labels: BTreeMap<String, String>,
    finalizer: bool,
    pod: Map<String, Value>,
    /// The first error of the setters.
    #[serde(skip)]
    problem: Option<SpecError>,
}

impl PodOptions {
    /// Returns the defaults with this image.
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            image: Some(image.into()),
            ..Self::default()
        }
    }

    /// Sets these options in a specification. Invalid options are an error of its
    /// [`build`](ServerSpecBuilder::build).
    pub fn apply(&self, spec: ServerSpecBuilder) -> ServerSpecBuilder {
        let problem = self.problem.clone();
        match problem.map_or_else(|| body::check(self), Err) {
            Ok(()) => spec.options(self),
            Err(error) => spec.reject(error),
        }
    }

    /// Begins the specification of a server that runs the image's entry point in a pod with these
    /// options.
    pub fn server(&self, name: impl Into<String>) -> ServerSpecBuilder {
        self.apply(ServerSpec::builder_without_command(name))
    }

    /// Begins the specification of a server that runs this program of the image.
    pub fn command(
        &self,
        name: impl Into<String>,
        program: impl Into<std::ffi::OsString>,
    ) -> ServerSpecBuilder {
        self.apply(ServerSpec::builder(name, program))
    }

    pub(crate) fn of(spec: &ServerSpec) -> Result<Self, SpecError> {
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
                options().pod(json!({"spec": {"tolerations": [{"Operator": "x"}]}})),
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
