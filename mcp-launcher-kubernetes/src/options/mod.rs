mod body;
mod raw;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use body::{Defaults, Owner, Plan, plan};
pub use mcp_lifecycle_core::backend::options::PullPolicy;

mcp_lifecycle_core::server_options! {
    /// The options of a pod, given as the options of its server's `ServerSpec`. Configuration files
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

mcp_lifecycle_core::setters! { PodOptions:
    /// Sets the seconds between SIGTERM and SIGKILL. 2 by default, the shortest that a kubelet
    /// supports. A forced end that follows does not shorten it (Kubernetes issue 83916).
    grace_seconds(seconds: u32) |it| it.grace_seconds = Some(seconds);
    /// Sets the user ID; the image's if unset.
    run_as_user(user: i64) |it| it.run_as_user = Some(user);
    /// Sets whether it is refused to run as root, as it is by default.
    run_as_non_root(non_root: bool) |it| it.run_as_non_root = Some(non_root);
    /// Sets whether the pod's object is kept until its end is proven, even against a forced
    /// deletion. Needs the permission to patch pods. `false` by default: a dead host's pod, and a
    /// namespace under deletion with it, remains until `reap_orphans`.
    finalizer(keep: bool) |it| it.finalizer = keep;
    /// Sets whether programs may gain privileges by set-uid.
    allow_privilege_escalation(allow: bool) |it| it.allow_privilege_escalation = allow;
    /// Adds a resource request: `("cpu", "100m")`.
    request(resource: impl Into<String>, amount: impl Into<String>) |it| it.requests.insert(resource.into(), amount.into());
    /// Adds a resource limit: `("memory", "128Mi")`.
    limit(resource: impl Into<String>, amount: impl Into<String>) |it| it.limits.insert(resource.into(), amount.into());
    /// Adds fields of the pod: a value that serializes to an object in the API's format, such as
    /// `serde_json::json!({"spec": {"hostNetwork": true}})` or the `Pod` of a client library. They
    /// win over all other options. Lists of named items (containers, volumes) are merged by name; the
    /// server's container is `server`. Unknown fields are errors, and so are fields that the server's
    /// lifecycle depends on.
    pod(patch: impl Serialize) |it| it.merge(patch);
}

/// Process 1 of the container, which receives signals and orphans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Init {
    /// The init of this crate, mounted read-only from a ConfigMap into any image. It starts the
    /// server once a client is attached, so that no output is lost, and forwards SIGTERM to all
    /// processes. When the host is gone, the server has
    /// [`init_grace`](PodOptions::init_grace) to exit, then gets SIGTERM, and SIGKILL
    /// after the same time again; nothing outside the pod is needed. Needs Linux nodes of this
    /// build's architecture, `x86_64` or `aarch64`. More than about 64 KiB of unread input hide its
    /// end.
    Supervised,
    /// The server itself. Output before the launcher attaches is lost, and a server that ignores
    /// the end of its input survives its host until `reap_orphans` is called.
    None,
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
