//! Turns a specification into a pod and the secret of its environment. Pure.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use mcp_lifecycle_core::backend::fields::{environment, invalid, text};
use mcp_lifecycle_core::backend::options::{INIT_GRACE_MS, unreserved};
use mcp_lifecycle_core::launch::{ServerSpec, SpecError};
use serde_json::{Value, json};

use super::{Init, PodOptions, PullPolicy, raw};
use crate::facts::SERVER;
use crate::{init, labels};

/// The shortest grace period that a kubelet supports, in seconds.
const LEAST_GRACE: u32 = 2;

/// Everything needed to launch one server. Not `Debug`: it holds the values of the environment.
pub(crate) struct Plan {
    pub(crate) image: String,
    pub(crate) supervised: bool,
    pub(crate) grace: u32,
    pub(crate) pod: Value,
    pub(crate) secret: Option<Value>,
}

impl Plan {
    pub(crate) fn objects(&mut self) -> impl Iterator<Item = &mut Value> {
        std::iter::once(&mut self.pod).chain(&mut self.secret)
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Defaults<'a> {
    pub(crate) image: Option<&'a str>,
    pub(crate) init: Option<Init>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Owner {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
}

/// Plans the launch of `spec`. The owner's labels win.
pub(crate) fn plan(
    spec: &ServerSpec,
    options: PodOptions,
    defaults: Defaults<'_>,
    owner: Owner,
    host_env: impl Fn(&OsStr) -> Option<OsString>,
) -> Result<Plan, SpecError> {
    let image = match options.image.as_deref().or(defaults.image) {
        Some(image) if !image.is_empty() => image.to_owned(),
        _ => return Err(invalid("image", "is required: the image to run")),
    };
    let program = spec
        .program()
        .map(|program| word("command", program))
        .transpose()?;
    let args: Result<Vec<_>, _> = spec.args().iter().map(|a| word("args", a)).collect();
    let args = args?;
    let supervised = match (options.init.or(defaults.init), &program) {
        (None, program) => program.is_some(),
        (Some(Init::None), _) => false,
        (Some(Init::Supervised), Some(_)) => true,
        (Some(Init::Supervised), None) => {
            let problem = "the supervised init needs a command in the specification: the API \
                           does not tell the entry point of an image; give it, or take `none`";
            return Err(invalid("init", problem));
        }
    };
    let env = environment(spec, host_env)?;
    env.keys().try_for_each(|name| check_variable(name))?;
    let mut pod = pod(&options, &image)?;
    pod["metadata"]["name"] = owner.name.as_str().into();
    for (key, value) in &owner.labels {
        pod["metadata"]["labels"][key] = value.as_str().into();
    }
    let container = &mut pod["spec"]["containers"][0];
    if !env.is_empty() {
        container["envFrom"] = json!([{"secretRef": {"name": owner.name}}]);
    }
    if let Some(dir) = spec.cwd() {
        container["workingDir"] = text("cwd", dir.as_os_str())?.into();
    }
    let program: Vec<String> = program.into_iter().collect();
    if supervised {
        let grace = options.init_grace_ms.unwrap_or(INIT_GRACE_MS).to_string();
        container["command"] = [init::command(&grace), program, args].concat().into();
        init::mount(&mut pod);
    } else {
        if !program.is_empty() {
            container["command"] = program.into();
        }
        if !args.is_empty() {
            container["args"] = args.into();
        }
    }
    let secret = (!env.is_empty()).then(|| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "immutable": true,
            "metadata": {"name": owner.name, "labels": owner.labels},
            "stringData": env,
        })
    });
    Ok(Plan {
        image,
        supervised,
        grace: options.grace_seconds.unwrap_or(LEAST_GRACE),
        pod,
        secret,
    })
}

/// Checks the options that no specification or launcher can correct.
pub(super) fn check(options: &PodOptions) -> Result<(), SpecError> {
    pod(options, "image").map(drop)
}

fn pod(options: &PodOptions, image: &str) -> Result<Value, SpecError> {
    unreserved(options.labels.keys())?;
    let grace = options.grace_seconds.unwrap_or(LEAST_GRACE);
    if grace < LEAST_GRACE {
        return Err(invalid(
            "grace_seconds",
            "must be 2 at least: the kubelet knows no shorter one",
        ));
    }
    let policy = options.pull.map(|policy| match policy {
        PullPolicy::Always => "Always",
        PullPolicy::Never => "Never",
        _ => "IfNotPresent",
    });
    let finalizers = options.finalizer.then(|| json!([labels::FINALIZER]));
    let pod = without_null(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"labels": options.labels, "finalizers": finalizers},
        "spec": {
            // A stdio session cannot be resumed.
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": SERVER,
                "image": image,
                "imagePullPolicy": policy,
                // With `stdinOnce` the server's stdin ends when the connection ends, also after a
                // host's death.
                "stdin": true, "stdinOnce": true, "tty": false,
                "resources": {"requests": options.requests, "limits": options.limits},
                "securityContext": {
                    "allowPrivilegeEscalation": options.allow_privilege_escalation,
                    "capabilities": {"drop": ["ALL"], "add": options.cap_add},
                    "readOnlyRootFilesystem": options.read_only_root,
                    "runAsNonRoot": options.run_as_non_root.unwrap_or(true),
                    "runAsUser": options.run_as_user,
                },
            }],
        },
    }));
    raw::merge(pod, &options.pod)
}

fn without_null(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            fields
                .map(|(name, value)| (name, without_null(value)))
                .collect()
        }
        Value::Array(items) => items.into_iter().map(without_null).collect(),
        value => value,
    }
}

/// Checks a name: the kubelet silently skips one that cannot be a secret's key.
fn check_variable(name: &str) -> Result<(), SpecError> {
    let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let begins = name.starts_with(|c: char| c.is_ascii_digit());
    if begins || !name.chars().all(fit) {
        let problem =
            format!("`{name}`: a pod's variables are of letters, digits, `_`, `.` and `-`");
        return Err(invalid("env", problem));
    }
    Ok(())
}

/// Escapes an argument: the kubelet expands `$(NAME)` and reads `$$` as `$`.
fn word(option: &str, value: &OsStr) -> Result<String, SpecError> {
    Ok(text(option, value)?.replace('$', "$$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(spec: &ServerSpec) -> Result<Plan, SpecError> {
        let owner = Owner {
            name: "mcp-s-1".to_owned(),
            labels: [("dev.mcp-lifecycle.instance".to_owned(), "me".to_owned())].into(),
        };
        let host = |name: &OsStr| (name == "TOKEN").then(|| "t".into());
        plan(
            spec,
            PodOptions::of(spec)?,
            Defaults::default(),
            owner,
            host,
        )
    }

    #[test]
    fn the_defaults_are_safe() {
        let spec = PodOptions::new("img").server("s").build().unwrap();
        let plan = planned(&spec).unwrap();
        let pod = &plan.pod["spec"];
        assert_eq!(pod["restartPolicy"], "Never");
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(pod["enableServiceLinks"], false);
        let server = &pod["containers"][0];
        assert_eq!(
            (&server["stdin"], &server["stdinOnce"]),
            (&true.into(), &true.into())
        );
        let security = &server["securityContext"];
        assert_eq!(security["runAsNonRoot"], true);
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(
            plan.pod["metadata"]["labels"]["dev.mcp-lifecycle.instance"],
            "me"
        );
        assert!(plan.secret.is_none() && !plan.supervised);
    }

    #[test]
    fn the_environment_is_in_a_secret_and_nowhere_else() {
        let spec = PodOptions::new("img").command("s", "srv").arg("x");
        let spec = spec.env("A", "hunter2").pass_env("TOKEN").pass_env("UNSET");
        let plan = planned(&spec.build().unwrap()).unwrap();
        let secret = plan.secret.unwrap();
        assert_eq!(secret["stringData"], json!({"A": "hunter2", "TOKEN": "t"}));
        assert!(!plan.pod.to_string().contains("hunter2"));
        let odd = PodOptions::new("img").command("s", "srv").env("A B", "1");
        assert!(planned(&odd.build().unwrap()).is_err());
    }

    #[test]
    fn a_patch_is_merged_by_name_and_wins() {
        let patch = json!({"spec": {
            "nodeName": "n", "containers": [
                {"name": "server", "resources": {"limits": {"cpu": "2"}}},
                {"name": "beside", "image": "i"},
            ],
            "volumes": [{"name": "data", "emptyDir": {"medium": "Memory"}}],
        }});
        let options = PodOptions::new("img")
            .limit("cpu", "1")
            .limit("memory", "1Gi");
        let options = options.pod(patch);
        let plan = planned(&options.command("s", "srv").build().unwrap()).unwrap();
        let pod = &plan.pod["spec"];
        assert_eq!(pod["nodeName"], "n");
        let limits = &pod["containers"][0]["resources"]["limits"];
        assert_eq!(limits, &json!({"cpu": "2", "memory": "1Gi"}));
        assert_eq!(pod["containers"][1]["name"], "beside");
        assert_eq!(pod["volumes"][0]["emptyDir"]["medium"], "Memory");
        let taken = json!({"spec": {"containers": [{"name": "server", "tty": true}]}});
        let error = PodOptions::new("i")
            .pod(taken)
            .server("s")
            .build()
            .unwrap_err();
        assert!(error.to_string().contains("lifecycle"), "{error}");
    }
}
