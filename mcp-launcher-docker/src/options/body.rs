//! Turns a specification into the body of a create request. Pure.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount as EngineMount, MountTmpfsOptions,
    MountType, RestartPolicy, RestartPolicyNameEnum,
};
use mcp_lifecycle_core::backend::fields::{environment, invalid, over, text};
use mcp_lifecycle_core::backend::options::{
    INIT_GRACE_MS, LIFECYCLE, OPTION, Ours, SPEC, known, refuse, unreserved,
};
use mcp_lifecycle_core::launch::{ServerSpec, SpecError};
use mcp_lifecycle_core::size;
use serde_json::{Map, Value};

use super::{ContainerOptions, Init, Mount, PullPolicy, pin};
use crate::supervised::Supervision;

const PIDS: u32 = 512;

/// Everything needed to launch one server. Not `Debug`: it holds the values of the environment.
pub(crate) struct Plan {
    pub(crate) image: String,
    pub(crate) platform: Option<String>,
    pub(crate) pull: Option<PullPolicy>,
    pub(crate) supervision: Option<Supervision>,
    pub(crate) body: ContainerCreateBody,
}

impl Plan {
    pub(crate) fn limits_memory(&self) -> bool {
        let host = self.body.host_config.as_ref();
        host.is_some_and(|host| host.memory.is_some())
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Defaults<'a> {
    pub(crate) image: Option<&'a str>,
    pub(crate) init: Init,
    pub(crate) pinned: bool,
}

/// Plans the launch of `spec`. The owner's labels win.
pub(crate) fn plan(
    spec: &ServerSpec,
    options: ContainerOptions,
    defaults: Defaults<'_>,
    owner: HashMap<String, String>,
    host_env: impl Fn(&OsStr) -> Option<OsString>,
) -> Result<Plan, SpecError> {
    let image = match options.image.as_deref().or(defaults.image) {
        Some(image) if !image.is_empty() => image.to_owned(),
        _ => return Err(invalid("image", "is required: the image to run")),
    };
    pin::check(&image, defaults.pinned)?;
    // An ID has no registry.
    let pull = match pin::is_id(&image) {
        true => Some(PullPolicy::Never),
        false => options.pull,
    };
    let (entrypoint, cmd) = command(spec)?;
    let init = options.init.unwrap_or(defaults.init);
    let grace = Duration::from_millis(options.init_grace_ms.unwrap_or(INIT_GRACE_MS).into());
    let env = environment(spec, host_env)?.into_iter();
    let body = ContainerCreateBody {
        image: Some(image.clone()),
        entrypoint,
        cmd,
        env: Some(env.map(|(name, value)| format!("{name}={value}")).collect()),
        working_dir: spec.cwd().map(|dir| path("cwd", dir)).transpose()?,
        user: options.user.clone(),
        labels: Some(all_labels(&options, owner)?),
        tty: Some(false),
        // With `stdin_once` the server's stdin ends when the connection ends, also after a host's
        // death.
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        host_config: Some(host_config(&options, init)?),
        ..ContainerCreateBody::default()
    };
    let body = merge(body, &options.create_body)?;
    Ok(Plan {
        image,
        platform: options.platform,
        pull,
        supervision: (init == Init::Supervised).then_some(Supervision { grace }),
        body,
    })
}

/// Checks the options that no specification or launcher can correct.
pub(super) fn check(options: &ContainerOptions) -> Result<(), SpecError> {
    all_labels(options, HashMap::new())?;
    let body = ContainerCreateBody {
        host_config: Some(host_config(options, options.init.unwrap_or_default())?),
        ..ContainerCreateBody::default()
    };
    merge(body, &options.create_body).map(drop)
}

/// Returns entry point and arguments: a program replaces both of the image's, arguments alone
/// replace its default arguments.
#[expect(clippy::type_complexity, reason = "two fields of the same request")]
fn command(spec: &ServerSpec) -> Result<(Option<Vec<String>>, Option<Vec<String>>), SpecError> {
    let args: Result<Vec<_>, _> = spec.args().iter().map(|a| text("args", a)).collect();
    let args = args?;
    match spec.program() {
        Some(program) => Ok((Some(vec![text("command", program)?]), Some(args))),
        None if args.is_empty() => Ok((None, None)),
        None => Ok((None, Some(args))),
    }
}

fn all_labels(
    options: &ContainerOptions,
    owner: HashMap<String, String>,
) -> Result<HashMap<String, String>, SpecError> {
    unreserved(options.labels.keys())?;
    let mut all: HashMap<_, _> = options.labels.clone().into_iter().collect();
    all.extend(owner);
    Ok(all)
}

fn host_config(options: &ContainerOptions, init: Init) -> Result<HostConfig, SpecError> {
    let mut security = options.security_opt.clone();
    if !options.allow_new_privileges {
        security.push("no-new-privileges".to_owned());
    }
    let memory = options.memory.as_ref().map(|size| bytes("memory", size));
    let memory = memory.transpose()?;
    let mounts: Result<Vec<_>, _> = options.mounts.iter().map(mount).collect();
    Ok(HostConfig {
        auto_remove: Some(true),
        init: Some(init == Init::Engine),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            config: None,
        }),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: (!options.cap_add.is_empty()).then(|| options.cap_add.clone()),
        security_opt: (!security.is_empty()).then_some(security),
        pids_limit: Some(options.pids_limit.unwrap_or(PIDS).into()).filter(|&limit| limit > 0),
        memory,
        memory_swap: memory,
        nano_cpus: options.cpus.map(nano_cpus).transpose()?,
        network_mode: options.network.clone(),
        readonly_rootfs: Some(options.read_only_root),
        mounts: Some(mounts?),
        ..HostConfig::default()
    })
}

fn bytes(option: &str, size: &Value) -> Result<i64, SpecError> {
    let bytes = size.as_str().map_or(size.as_u64(), size::parse);
    let bytes = bytes.and_then(|bytes| i64::try_from(bytes).ok());
    bytes.ok_or_else(|| {
        let problem = "is not a number of bytes; write 1048576, \"512m\" or \"2g\"";
        invalid(option, format!("{size} {problem}"))
    })
}

fn nano_cpus(cpus: f64) -> Result<i64, SpecError> {
    if !(cpus.is_finite() && cpus > 0.0 && cpus < 1e6) {
        return Err(invalid("cpus", "must be greater than 0, such as 1.5"));
    }
    Ok((cpus * 1e9) as i64)
}

fn mount(mount: &Mount) -> Result<EngineMount, SpecError> {
    let mut made = EngineMount::default();
    let target = match mount {
        Mount::Bind {
            source,
            target,
            writable,
        } => {
            made.typ = Some(MountType::BIND);
            made.source = Some(path("mounts", source)?);
            made.read_only = Some(!writable);
            target
        }
        Mount::Volume {
            source,
            target,
            writable,
        } => {
            made.typ = Some(MountType::VOLUME);
            made.source = Some(source.clone());
            made.read_only = Some(!writable);
            target
        }
        Mount::Tmpfs { target, size } => {
            made.typ = Some(MountType::TMPFS);
            if let Some(size) = size {
                made.tmpfs_options = Some(MountTmpfsOptions {
                    size_bytes: Some(bytes("mounts", size)?),
                    ..MountTmpfsOptions::default()
                });
            }
            target
        }
    };
    if !target.starts_with("/") {
        return Err(invalid("mounts", "`target` must be an absolute path"));
    }
    made.target = Some(path("mounts", target)?);
    Ok(made)
}

fn path(option: &str, path: &Path) -> Result<String, SpecError> {
    text(option, path.as_os_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(spec: &ServerSpec) -> Result<Plan, SpecError> {
        let owner = HashMap::from([("dev.mcp-lifecycle.x.launch".to_owned(), "me".to_owned())]);
        let host = |name: &OsStr| (name == "TOKEN").then(|| "t".into());
        let defaults = Defaults {
            image: None,
            init: Init::default(),
            pinned: false,
        };
        plan(spec, ContainerOptions::of(spec)?, defaults, owner, host)
    }

    #[test]
    fn the_defaults_are_safe() {
        let options = ContainerOptions::new("img");
        let spec = options.apply(ServerSpec::builder_without_command("s"));
        let body = planned(&spec.build().unwrap()).unwrap().body;
        let host = body.host_config.unwrap();
        assert_eq!(host.cap_drop.unwrap(), ["ALL"]);
        assert_eq!(host.security_opt.unwrap(), ["no-new-privileges"]);
        assert_eq!(host.pids_limit, Some(512));
        assert_eq!(host.init, Some(true));
        assert_eq!(host.auto_remove, Some(true));
        assert_eq!(host.log_config.unwrap().typ.unwrap(), "none");
        assert_eq!(
            host.restart_policy.unwrap().name,
            Some(RestartPolicyNameEnum::NO)
        );
        assert_eq!(body.stdin_once, Some(true));
        assert_eq!((body.entrypoint, body.cmd), (None, None));
        assert_eq!(body.labels.unwrap()["dev.mcp-lifecycle.x.launch"], "me");
    }

    #[test]
    fn the_host_passes_only_what_is_named() {
        let spec = ServerSpec::builder("s", "srv")
            .arg("x")
            .env("A", "1")
            .pass_env("TOKEN")
            .pass_env("UNSET");
        let spec = ContainerOptions::new("img").apply(spec).build().unwrap();
        let body = planned(&spec).unwrap().body;
        assert_eq!(body.env.unwrap(), ["A=1", "TOKEN=t"]);
        assert_eq!(body.entrypoint.unwrap(), ["srv"]);
        assert_eq!(body.cmd.unwrap(), ["x"]);
    }

    #[test]
    fn nobody_can_claim_our_labels() {
        let options = ContainerOptions::new("img").label("dev.mcp-lifecycle.x.launch", "other");
        assert!(options.server("s").build().is_err());
        let labels = serde_json::json!({ "dev.mcp-lifecycle.x.launch": "other" });
        let spec = ContainerOptions::new("img").server("s");
        let spec = spec.option("labels", labels).build().unwrap();
        assert!(planned(&spec).is_err());
        let none = ServerSpec::builder_without_command("s").build().unwrap();
        let text = planned(&none).err().unwrap().to_string();
        assert!(text.contains("image"), "{text}");
    }
}

const OURS: Ours = &[
    ("Image", OPTION),
    ("Labels", OPTION),
    ("Env", SPEC),
    ("Cmd", SPEC),
    ("Entrypoint", SPEC),
    ("WorkingDir", SPEC),
    ("Tty", LIFECYCLE),
    ("OpenStdin", LIFECYCLE),
    ("StdinOnce", LIFECYCLE),
    ("AttachStdin", LIFECYCLE),
    ("AttachStdout", LIFECYCLE),
    ("AttachStderr", LIFECYCLE),
    ("HostConfig.AutoRemove", LIFECYCLE),
    ("HostConfig.RestartPolicy", LIFECYCLE),
    ("HostConfig.Init", OPTION),
    // In another PID namespace the exit of process 1 does not end the others.
    ("HostConfig.PidMode", LIFECYCLE),
];

/// Merges these fields into the request. Objects are merged, `null` removes a field, anything else
/// replaces.
pub(super) fn merge(
    body: ContainerCreateBody,
    fields: &Map<String, Value>,
) -> Result<ContainerCreateBody, SpecError> {
    if fields.is_empty() {
        return Ok(body);
    }
    refuse("create_body", fields, OURS)?;
    let whole = serde_json::to_value(body);
    let mut whole = whole.map_err(|error| invalid("create_body", error.to_string()))?;
    if let Value::Object(whole) = &mut whole {
        over(whole, fields.clone());
    }
    known("create_body", &fields.clone().into(), whole)
}

#[cfg(test)]
mod raw_tests {
    use super::*;
    use serde_json::json;

    fn merged(fields: Value) -> Result<Value, String> {
        let body = json!({"User": "a", "HostConfig": {"Memory": 1, "ReadonlyRootfs": true}});
        let body = serde_json::from_value(body).unwrap();
        let merged = merge(body, fields.as_object().unwrap());
        let merged = merged.map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(merged).unwrap())
    }

    #[test]
    fn it_wins_over_the_options_field_by_field() {
        let merged = merged(json!({
            "User": null,
            "HostConfig": {"Memory": 2, "Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 2}]},
        }));
        let merged = merged.unwrap();
        assert_eq!(merged.get("User"), None);
        assert_eq!(merged["HostConfig"]["Memory"], 2);
        assert_eq!(merged["HostConfig"]["ReadonlyRootfs"], true);
        assert_eq!(merged["HostConfig"]["Ulimits"][0]["Name"], "nofile");
    }

    #[test]
    fn what_the_api_does_not_have_is_refused_and_not_dropped() {
        for (fields, name) in [
            (json!({"HostConfig": {"Memry": 2}}), "`HostConfig.Memry`"),
            (json!({"hostconfig": {"Memory": 2}}), "`hostconfig`"),
            (
                json!({"HostConfig": {"Ulimits": [{"Name": "a"}, {"Nam": "b"}]}}),
                "`HostConfig.Ulimits.Nam`",
            ),
            (json!({"HostConfig": {"Memory": "lots"}}), "lots"),
        ] {
            let error = merged(fields).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn what_the_lifecycle_rests_on_stays() {
        for fields in [
            json!({"Tty": true}),
            json!({"Labels": {}}),
            json!({"HostConfig": {"AutoRemove": false}}),
            json!({"HostConfig": {"RestartPolicy": {"Name": "always"}}}),
            json!({"Image": null}),
            json!({"HostConfig": null}),
        ] {
            let error = merged(fields).unwrap_err();
            assert!(error.contains("cannot be set here"), "{error}");
        }
    }
}
