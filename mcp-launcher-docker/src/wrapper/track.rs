use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcp_lifecycle_core::launch::{LaunchErrorKind, ServerSpec};
use mcp_lifecycle_core::lock::Lock;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::cli::{self, Cli, Creates};
use super::nested::{End, Means, Nested};
use super::proxy::{Additions, Proxy};
use super::{ReapPolicy, Settings, socket};
use crate::endpoint::{Endpoint, Surroundings};
use crate::engine::Engine;
use crate::host::Host;
use crate::labels::{Mark, Role};

/// The answer of [`ContainerTracker::track`](super::ContainerTracker::track).
#[derive(Debug)]
pub enum Tracking {
    /// Its containers are tracked.
    Tracked(Tracked),
    /// There is nothing to track, or tracking is not possible for this reason.
    Untracked(Option<String>),
}

/// A server whose containers are tracked.
///
/// # Drop
///
/// Counts as a launch that failed: the containers created so far are ended.
pub struct Tracked {
    pub(super) spec: ServerSpec,
    pub(super) server: oneshot::Sender<End>,
    pub(super) nested: Arc<Nested>,
}

impl Tracked {
    /// Returns the changed specification, to be started instead.
    pub fn spec(&self) -> &ServerSpec {
        &self.spec
    }

    /// Ends the containers of the server, of which nothing is left: those without a client get
    /// their stop signal, and all are forced after the grace. Completes once they are proven gone.
    ///
    /// # Cancel safety
    ///
    /// The end goes on when this is dropped, and its result is lost.
    pub async fn end(self, grace: Duration) {
        // The receiver is a task that waits only for this.
        let _ = self.server.send(Box::pin(std::future::ready(())));
        if timeout(grace, self.nested.done()).await.is_err() {
            self.nested.force();
            self.nested.done().await;
        }
    }
}

mcp_lifecycle_core::debug_fields! { Tracked, it { spec: &it.spec } }

/// The variables that name the engine. A server that sets none of them uses its host's engine, even
/// if it inherits nothing else.
const ENGINE: [&str; 5] = [
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_TLS_VERIFY",
    "DOCKER_CERT_PATH",
];

#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// Its containers cannot be found, or it has none.
    Untracked,
    Proxy(Endpoint),
    /// By labels in its own command line, such as `docker run`.
    Labels(Creates),
}

pub(super) fn prepare(
    settings: &Settings,
    host: &Lock<Option<Host>>,
    spec: &ServerSpec,
) -> Result<Tracking, LaunchErrorKind> {
    let env = spec.env().resolve(std::env::vars_os());
    let env = with_engine_of(env, |name| std::env::var_os(name));
    let upstream = Surroundings::with_env(env.clone()).resolve();
    let upstream = upstream.map_err(|error| debug!(%error, "no container engine"));
    let creates = spec
        .program()
        .and_then(|program| cli::find(program, spec.args()));
    let way = choose(settings.required, creates, upstream.ok());
    if way == Way::Untracked && !settings.required {
        return Ok(Tracking::Untracked(None));
    }
    let backend = |what: &'static str| move |error| LaunchErrorKind::backend(what, error);
    let willed = settings.last_will.then_some(Role::Nested);
    let host = Host::take(host, &settings.ledgers, willed)
        .map_err(|error| backend("the owner's ledger cannot be taken")(error.into()))?;
    let launch = mcp_lifecycle_core::backend::random::id()
        .map_err(|error| backend("no randomness")(error.into()))?;
    let mark = Mark::new(&host.ledger, &launch, spec.name(), Role::Nested);
    let (spec, means) = match way {
        Way::Untracked => {
            let problem = "there is no engine that this server would use";
            return Err(backend("its containers cannot be tracked")(problem.into()));
        }
        Way::Proxy(engine) => match by_proxy(settings, &host, spec, engine, &mark) {
            Ok(tracked) => tracked,
            Err(error) if settings.required => {
                return Err(backend("its containers cannot be tracked")(error));
            }
            Err(error) => {
                warn!(%error, "containers of this server are not tracked");
                return Ok(Tracking::Untracked(Some(error.to_string())));
            }
        },
        Way::Labels(creates) => by_labels(settings.reap, spec, &creates, &mark, env)
            .map_err(|error| backend("its containers cannot be tracked")(error))?,
    };
    let nested = Arc::new(Nested::new(mark, means, host.ledger));
    let server = nested
        .follow()
        .map_err(|error| backend("the control thread cannot be started")(error.into()))?;
    Ok(Tracking::Tracked(Tracked {
        spec,
        server,
        nested,
    }))
}

/// Adds the host's engine to the environment. A server that names an engine or a context itself
/// gets nothing of the host's.
fn with_engine_of(
    mut env: BTreeMap<OsString, OsString>,
    host: impl Fn(&str) -> Option<OsString>,
) -> BTreeMap<OsString, OsString> {
    let is_set = |name: &str| env.contains_key(OsStr::new(name));
    if is_set("DOCKER_HOST") || is_set("DOCKER_CONTEXT") {
        return env;
    }
    for name in ENGINE {
        if let Some(value) = host(name) {
            env.entry(name.into()).or_insert(value);
        }
    }
    env
}

fn choose(required: bool, creates: Option<Creates>, upstream: Option<Endpoint>) -> Way {
    let engine = upstream.filter(|endpoint| match endpoint.local_socket() {
        Some(socket) => socket.exists(),
        None => true,
    });
    match (creates, engine, required) {
        // The command's flags override its environment; podman and nerdctl do not use the engine's
        // API.
        (Some(creates), _, _) if creates.names_engine || !creates.is_docker => Way::Labels(creates),
        // The command's own container can be labelled without a proxy to a remote engine.
        (Some(creates), Some(engine), false) if engine.local_socket().is_none() => {
            Way::Labels(creates)
        }
        // The proxy labels as well, and has a fence.
        (_, Some(engine), _) => Way::Proxy(engine),
        (Some(creates), None, _) => Way::Labels(creates),
        (None, None, _) => Way::Untracked,
    }
}

type Prepared = (ServerSpec, Means);
type Problem = mcp_lifecycle_core::launch::BoxError;

fn by_proxy(
    settings: &Settings,
    host: &Host,
    spec: &ServerSpec,
    endpoint: Endpoint,
    mark: &Mark,
) -> Result<Prepared, Problem> {
    let ledger = &host.ledger;
    ledger.note(&endpoint.noted())?;
    let launch = &mark.launch;
    let engine = endpoint.local_socket().map(Path::to_owned);
    let engine = engine.as_deref();
    let path = socket::place(ledger, launch, engine)?;
    let own = |path: &Path| path.to_str().map(str::to_owned);
    let sockets = engine.and_then(|engine| Some((own(engine)?, own(&path)?)));
    let command = engine
        .filter(|_| settings.private_mounts)
        .and_then(|engine| {
            let program = spec.program()?;
            let around = socket::around(program, spec.args(), &path, engine, is_root());
            Some(around)
        });
    let changed = match command {
        Some((program, args)) => spec.to_builder().command(program, args),
        None => spec.to_builder(),
    };
    // It overrides DOCKER_CONTEXT and the CLI's current context. DOCKER_TLS_VERIFY applies to the
    // engine, not to the proxy.
    let changed = changed.env("DOCKER_HOST", format!("unix://{}", path.display()));
    let spec = changed.env("DOCKER_TLS_VERIFY", "").build()?;
    let additions = Additions {
        mark: mark.clone(),
        policy: settings.reap,
        sockets,
    };
    let reaching = Arc::new(Engine::new(endpoint.clone()));
    let proxy = Proxy::start(path.clone(), reaching, additions, host.clone())?;
    socket::like(engine, &path)?;
    Ok((spec, Means::Proxy(proxy)))
}

fn by_labels(
    policy: ReapPolicy,
    spec: &ServerSpec,
    creates: &Creates,
    mark: &Mark,
    env: BTreeMap<OsString, OsString>,
) -> Result<Prepared, Problem> {
    // The container *is* the server: tied to it, unless the policy ends none.
    let keep = !policy.ends(true);
    let program = spec.program().unwrap_or_default().to_owned();
    let known = ENGINE.into_iter().filter(|_| creates.is_docker);
    let engine = known.filter_map(|name| Some((name, env.get(OsStr::new(name))?.clone())));
    let args = creates.labelled(spec.args(), &mark.with_fate(!keep));
    let labelled = spec.to_builder().command(program.clone(), args);
    let labelled = engine.fold(labelled, |spec, (name, value)| spec.env(name, value));
    let cli = Cli {
        program,
        globals: creates.globals.clone(),
        env: env.into_iter().collect(),
        directory: spec.cwd().map(Path::to_owned),
    };
    Ok((labelled.build()?, Means::Cli { cli, keep }))
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn creates(command: &str) -> Option<Creates> {
        let args: Vec<OsString> = command.split(' ').skip(1).map(Into::into).collect();
        cli::find(command.split(' ').next().unwrap().as_ref(), &args)
    }

    #[test]
    fn the_proxy_is_preferred_where_the_command_does_not_go_around_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let here = || Some(Endpoint::Unix(file.path().to_owned()));
        let far = || Some(Endpoint::Tcp("h:1".into()));
        let way = |command, upstream| choose(false, creates(command), upstream);
        assert!(matches!(way("npx x", here()), Way::Proxy(_)));
        assert!(matches!(way("docker run i", here()), Way::Proxy(_)));
        assert!(matches!(way("docker -H x run i", here()), Way::Labels(_)));
        assert!(matches!(way("podman run i", here()), Way::Labels(_)));
        assert!(matches!(way("docker run i", far()), Way::Labels(_)));
        assert!(matches!(way("npx x", far()), Way::Proxy(_)));
        assert_eq!(way("npx x", None), Way::Untracked);
    }

    #[test]
    fn a_server_has_the_engine_of_its_host_unless_it_names_one() {
        let host = |name: &str| match name {
            "DOCKER_HOST" => Some("tcp://far:2376".into()),
            "DOCKER_TLS_VERIFY" => Some("1".into()),
            _ => None,
        };
        let env = |own: &[(&str, &str)]| {
            let own = own.iter().map(|(name, value)| (name.into(), value.into()));
            let all = with_engine_of(own.collect(), host);
            let found = |name: &str| all.get(OsStr::new(name)).cloned();
            ["DOCKER_HOST", "DOCKER_TLS_VERIFY"].map(found)
        };
        assert_eq!(env(&[]), [Some("tcp://far:2376".into()), Some("1".into())]);
        let own = env(&[("DOCKER_HOST", "unix:///x")]);
        assert_eq!(own, [Some("unix:///x".into()), None]);
        assert_eq!(env(&[("DOCKER_CONTEXT", "lab")]), [None, None]);
    }
}
