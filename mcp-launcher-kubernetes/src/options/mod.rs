mod body;
mod chain;
mod kinds;
mod raw;

use std::collections::BTreeMap;

pub(crate) use body::{Defaults, Owner, Plan, plan};
pub use kinds::Init;
pub use mcp_lifecycle_core::backend::options::PullPolicy;

mcp_lifecycle_core::server_options! {
    /// The options of a pod, given as the options of its server's [`ServerSpec`]. Configuration files
    /// use the names in `docs/kubernetes.md`. Everything else of a pod is set by [`pod`](Self::pod), in
    /// the API's format.
    ///
    /// The defaults follow the Pod Security Standard `restricted`: no root, no capabilities, no new
    /// privileges, the runtime's seccomp profile; and no service account token. Each can be relaxed.
    /// The pod never restarts, since a stdio session cannot be resumed. Process 1 is the supervised init
    /// if the specification has a command, and none for an image's entry point, which the API does not
    /// reveal.
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
    PodOptions(Init, pod) {
        grace_seconds: Option<u32>,
        requests: BTreeMap<String, String>,
        limits: BTreeMap<String, String>,
        run_as_user: Option<i64>,
        run_as_non_root: Option<bool>,
        allow_privilege_escalation: bool,
        finalizer: bool,
    }
}

#[cfg(test)]
mod tests {
    use mcp_lifecycle_core::launch::ServerSpec;
    use serde_json::{Value, json};

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
