use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::ConfigErrorKind;
use super::expand::{Lookup, Unresolved, expand};
use super::registry::LauncherRegistry;
use super::values::{Env, MaybeSpan, Span, strings};
use crate::client::{CallOptions, ServerConfig};
use crate::fleet::{FleetOptions, FleetServer, RestartPolicy, Sharing};
use crate::launch::{InheritEnv, ServerSpec};
use crate::terminate::TerminationPolicy;

/// The known keys: those of other hosts that matter for a launch, and our own. All others are
/// ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Entry {
    command: Option<String>,
    #[serde(deserialize_with = "strings")]
    args: Vec<String>,
    env: Env,
    #[serde(alias = "workingDirectory")]
    cwd: Option<String>,
    #[serde(alias = "serverUrl", alias = "httpUrl")]
    pub(super) url: Option<String>,
    disabled: bool,
    enabled: Option<bool>,
    // Codex and OpenClaw.
    #[serde(rename = "startup_timeout_sec")]
    startup_timeout_sec: Option<Span>,
    #[serde(rename = "startup_timeout_ms", alias = "connectionTimeoutMs")]
    startup_timeout_ms: Option<u64>,
    #[serde(rename = "tool_timeout_sec")]
    tool_timeout_sec: Option<Span>,
    request_timeout_ms: Option<u64>,
    // Ours.
    required: bool,
    launcher: Option<String>,
    #[serde(alias = "launcher_options")]
    launcher_options: Map<String, Value>,
    #[serde(alias = "prepare_timeout")]
    prepare_timeout: Option<Span>,
    #[serde(alias = "startup_timeout")]
    startup_timeout: Option<Span>,
    #[serde(alias = "call_timeout")]
    call_timeout: Option<MaybeSpan>,
    #[serde(alias = "idle_ttl")]
    idle_ttl: Option<MaybeSpan>,
    sharing: Option<Sharing>,
    #[serde(alias = "max_live")]
    max_live: Option<usize>,
    #[serde(alias = "pass_env", alias = "env_vars", deserialize_with = "strings")]
    pass_env: Vec<String>,
    #[serde(alias = "inherit_env")]
    inherit_env: Option<InheritEnv>,
    restart: Option<RestartKey>,
    shutdown: ShutdownKey,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected true, false, or a table with `maxRestarts`, `initial`, `max`, `sustainedUptime`, `cooldown`"
)]
enum RestartKey {
    Switch(bool),
    Policy(RestartNumbers),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct RestartNumbers {
    #[serde(alias = "max_restarts")]
    max_restarts: Option<u32>,
    initial: Option<Span>,
    max: Option<Span>,
    #[serde(alias = "sustained_uptime")]
    sustained_uptime: Option<Span>,
    cooldown: Option<MaybeSpan>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ShutdownKey {
    drain: Option<Span>,
    #[serde(alias = "eof_grace")]
    eof_grace: Option<Span>,
    #[serde(alias = "term_grace")]
    term_grace: Option<Span>,
    #[serde(alias = "kill_confirmation")]
    kill_confirmation: Option<Span>,
}

pub(super) struct Wrong {
    pub(super) kind: ConfigErrorKind,
    pub(super) at: Option<String>,
}

impl Entry {
    pub(super) fn is_disabled(&self) -> bool {
        self.disabled || self.enabled == Some(false)
    }

    pub(super) fn is_launchable(&self) -> bool {
        self.command.is_some() || (self.url.is_none() && self.launcher.is_some())
    }

    pub(super) fn into_config(
        self,
        server: &str,
        launchers: &LauncherRegistry,
        lookup: &Lookup<'_>,
    ) -> Result<FleetServer, Wrong> {
        let Some(launcher) = launchers.get(self.launcher.as_deref()) else {
            let launcher = self.launcher.unwrap_or_default();
            let at = Some(format!("\"{launcher}\""));
            let known = launchers.names().map(str::to_owned).collect();
            let server = server.to_owned();
            return Err(Wrong {
                kind: ConfigErrorKind::UnknownLauncher {
                    server,
                    launcher,
                    known,
                },
                at,
            });
        };
        let spec = self.spec(server, lookup)?;
        let mut config = ServerConfig::new(launcher.clone(), spec);
        let millis = |ms: Option<u64>| ms.map(Duration::from_millis);
        let seconds = |span: Option<Span>| span.map(|Span(time)| time);
        let startup = seconds(self.startup_timeout)
            .or(seconds(self.startup_timeout_sec))
            .or(millis(self.startup_timeout_ms));
        if let Some(timeout) = startup {
            config = config.startup_timeout(timeout);
        }
        if let Some(timeout) = seconds(self.prepare_timeout) {
            config = config.prepare_timeout(timeout);
        }
        let theirs = seconds(self.tool_timeout_sec).or(millis(self.request_timeout_ms));
        config = match (self.call_timeout, theirs) {
            (Some(MaybeSpan(None)), _) => config.call_options(CallOptions::new().timeout(None)),
            (Some(MaybeSpan(Some(time))), _) | (None, Some(time)) => {
                config.call_options(CallOptions::new().timeout(time))
            }
            (None, None) => config,
        };
        let mut options = FleetOptions::new()
            .required(self.required)
            .max_live(self.max_live);
        if let Some(MaybeSpan(ttl)) = self.idle_ttl {
            options.idle_ttl = ttl;
        }
        if let Some(sharing) = self.sharing {
            options.sharing = sharing;
        }
        if let Some(restart) = self.restart {
            options.restart = restart.policy();
        }
        let config = config.termination(self.shutdown.policy());
        Ok(config.in_fleet(options))
    }

    fn spec(&self, server: &str, lookup: &Lookup<'_>) -> Result<ServerSpec, Wrong> {
        let expand = |text: &str| {
            expand(text, lookup).map_err(|Unresolved { reference, problem }| Wrong {
                kind: ConfigErrorKind::Variable {
                    server: server.to_owned(),
                    problem,
                },
                at: Some(reference),
            })
        };
        let mut builder = match &self.command {
            Some(command) => ServerSpec::builder(server, expand(command)?),
            None => ServerSpec::builder_without_command(server),
        };
        for arg in &self.args {
            builder = builder.arg(expand(arg)?);
        }
        for (name, value) in &self.env.0 {
            builder = builder.env(name, expand(value)?);
        }
        for name in &self.pass_env {
            builder = builder.pass_env(name);
        }
        if let Some(cwd) = &self.cwd {
            builder = builder.cwd(expand(cwd)?);
        }
        builder = builder.inherit_env(self.inherit_env.unwrap_or_default());
        for (name, value) in &self.launcher_options {
            builder = builder.option(name, expand_value(value, &expand)?);
        }
        builder.build().map_err(|cause| Wrong {
            kind: ConfigErrorKind::Spec {
                server: server.to_owned(),
                cause,
            },
            at: None,
        })
    }
}

fn expand_value(
    value: &Value,
    expand: &impl Fn(&str) -> Result<String, Wrong>,
) -> Result<Value, Wrong> {
    Ok(match value {
        Value::String(text) => Value::String(expand(text)?),
        Value::Array(values) => Value::Array(
            values
                .iter()
                .map(|v| expand_value(v, expand))
                .collect::<Result<_, _>>()?,
        ),
        Value::Object(values) => {
            let expanded = values
                .iter()
                .map(|(k, v)| Ok((k.clone(), expand_value(v, expand)?)));
            Value::Object(expanded.collect::<Result<_, _>>()?)
        }
        other => other.clone(),
    })
}

impl RestartKey {
    fn policy(self) -> RestartPolicy {
        let numbers = match self {
            Self::Switch(true) => return RestartPolicy::new(),
            Self::Switch(false) => return RestartPolicy::never(),
            Self::Policy(numbers) => numbers,
        };
        let default = RestartPolicy::new();
        let or = |span: Option<Span>, default: Duration| span.map_or(default, |Span(time)| time);
        let mut policy = default.clone().backoff(
            or(numbers.initial, default.initial),
            or(numbers.max, default.max),
        );
        policy.sustained_uptime = or(numbers.sustained_uptime, default.sustained_uptime);
        policy.max_restarts = numbers.max_restarts.or(default.max_restarts);
        policy.cooldown = numbers
            .cooldown
            .map_or(default.cooldown, |MaybeSpan(time)| time);
        policy
    }
}

impl ShutdownKey {
    fn policy(&self) -> TerminationPolicy {
        let mut policy = TerminationPolicy::new();
        let set = |wait: &mut Duration, span: Option<Span>| {
            if let Some(Span(time)) = span {
                *wait = time;
            }
        };
        set(&mut policy.drain, self.drain);
        set(&mut policy.eof_grace, self.eof_grace);
        set(&mut policy.term_grace, self.term_grace);
        set(&mut policy.kill_confirmation, self.kill_confirmation);
        policy
    }
}
