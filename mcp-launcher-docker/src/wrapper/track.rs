//! The tracking of one server: decided before it is launched.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_lifecycle_core::launch::{LaunchErrorKind, ProcessTerminator, ServerSpec};
use tokio::sync::oneshot;
use tracing::{debug, warn};

use super::bridge::Bridge;
use super::cli::Cli;
use super::inject::{self, Creates};
use super::nested::{Means, Nested};
use super::policy::ReapPolicy;
use super::proxy::{Additions, Proxy};
use super::respec::{self, Changes};
use super::socket;
use super::{ProxyMode, Settings, mounts};
use crate::endpoint::{Endpoint, Surroundings};
use crate::engine::Engine;
use crate::labels::{self, Role};
use crate::last_will::Wills;
use crate::lease::Lease;

/// The result of the preparation.
pub(super) enum Preparation {
    Tracked(Tracked),
    /// There is nothing to track, or it cannot be, for this reason.
    Untracked(Option<String>),
}

/// A server whose containers will be found.
pub(super) struct Tracked {
    /// The specification to launch instead.
    pub(super) spec: ServerSpec,
    /// Takes the terminator of the server, once there is one.
    pub(super) server: oneshot::Sender<Arc<dyn ProcessTerminator>>,
    pub(super) nested: Arc<Nested>,
}

/// State that a tracker keeps from its first server on.
#[derive(Debug, Clone)]
pub(super) struct Host {
    lease: Arc<Lease>,
    wills: Option<Arc<Wills>>,
}

/// The variables that say where the engine is. A server that does not set any of these has the
/// engine of its host, also where it inherits nothing else.
const ENGINE: [&str; 5] = [
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_TLS_VERIFY",
    "DOCKER_CERT_PATH",
];

/// By which means a server is tracked.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// Its containers cannot be told, or it cannot have any.
    Untracked,
    /// Through a proxy to this engine.
    Proxy(Endpoint),
    /// By labels in its own command line, which is `docker run` or the like.
    Labels(Creates),
}

/// Prepares the tracking of a server.
pub(super) fn prepare(
    settings: &Settings,
    host: &Mutex<Option<Host>>,
    spec: &ServerSpec,
) -> Result<Preparation, LaunchErrorKind> {
    let env = spec.env().resolve(std::env::vars_os());
    let env = with_engine_of(env, |name| std::env::var_os(name));
    let upstream = Surroundings::with_env(env.clone()).resolve();
    let upstream = upstream.map_err(|error| debug!(%error, "no container engine"));
    let creates = spec
        .program()
        .and_then(|program| inject::find(program, spec.args()));
    let upstream = upstream.ok();
    let why = why_not(settings.proxy, upstream.as_ref());
    let way = choose(settings.proxy, creates, upstream);
    if way == Way::Untracked && settings.proxy != ProxyMode::Always {
        return Ok(Preparation::Untracked(why));
    }
    let backend = |what: &'static str| move |error| LaunchErrorKind::backend(what, error);
    let Host { lease, wills } = take(host, settings)
        .map_err(|error| backend("the owner's lease cannot be taken")(error.into()))?;
    let launch =
        mcp_lifecycle_host::random::id().map_err(|error| backend("no randomness")(error.into()))?;
    let labels = labels::of_launch(&lease, &launch, spec.name(), Role::Nested);
    let (spec, means) = match way {
        Way::Untracked => {
            let problem = "there is no engine that this server would use";
            return Err(backend("its containers cannot be tracked")(problem.into()));
        }
        Way::Proxy(engine) => match by_proxy(settings, &lease, wills, spec, engine, labels) {
            Ok(tracked) => tracked,
            Err(error) if settings.proxy == ProxyMode::Always => {
                return Err(backend("its containers cannot be tracked")(error));
            }
            Err(error) => {
                warn!(%error, "containers of this server are not tracked");
                return Ok(Preparation::Untracked(Some(error.to_string())));
            }
        },
        Way::Labels(creates) => by_labels(settings.reap, spec, &creates, labels, env)
            .map_err(|error| backend("its containers cannot be tracked")(error))?,
    };
    let nested = Arc::new(Nested::new(launch, means, lease));
    let server = nested
        .follow()
        .map_err(|error| backend("the control thread cannot be started")(error.into()))?;
    Ok(Preparation::Tracked(Tracked {
        spec,
        server,
        nested,
    }))
}

/// The environment with what the host knows of the engine. A server that names an
/// engine or a context itself is not given half of another.
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

/// The reason a server that may have containers is not tracked. One that has no engine
/// has none.
fn why_not(mode: ProxyMode, upstream: Option<&Endpoint>) -> Option<String> {
    let engine = upstream?;
    match engine.local_socket() {
        Some(socket) if !socket.exists() => None,
        _ if mode == ProxyMode::Never => Some("as told by ProxyMode::Never".to_owned()),
        _ => None,
    }
}

fn choose(mode: ProxyMode, creates: Option<Creates>, upstream: Option<Endpoint>) -> Way {
    let engine = upstream.filter(|endpoint| match endpoint.local_socket() {
        Some(socket) => socket.exists(),
        None => true,
    });
    match (creates, engine, mode) {
        // The flags of the command beat its environment; podman and nerdctl
        // do not use the engine's API.
        (Some(creates), _, _) if creates.names_engine || !creates.is_docker => Way::Labels(creates),
        // What the command itself creates needs no way of its own to a remote one.
        (Some(creates), Some(engine), ProxyMode::Auto) if engine.local_socket().is_none() => {
            Way::Labels(creates)
        }
        // The proxy labels as well, and has a fence.
        (_, Some(engine), ProxyMode::Auto | ProxyMode::Always) => Way::Proxy(engine),
        (Some(creates), _, _) => Way::Labels(creates),
        (None, _, _) => Way::Untracked,
    }
}

type Prepared = (ServerSpec, Means);
type Problem = mcp_lifecycle_core::launch::BoxError;

fn by_proxy(
    settings: &Settings,
    lease: &Lease,
    wills: Option<Arc<Wills>>,
    spec: &ServerSpec,
    endpoint: Endpoint,
    labels: HashMap<String, String>,
) -> Result<Prepared, Problem> {
    lease.note(&endpoint.noted())?;
    let launch = &labels[labels::LAUNCH];
    let (bridge, engine) = match endpoint.local_socket() {
        Some(socket) => (None, socket.to_owned()),
        None => {
            let path = socket::of_bridge(lease, launch)?;
            (Some(Bridge::start(path.clone(), &endpoint)?), path)
        }
    };
    // What outlives the host reaches sockets of this machine only.
    let wills = wills.filter(|_| bridge.is_none());
    let path = socket::place(lease, launch, &engine)?;
    let sockets = match (engine.to_str(), path.to_str()) {
        (Some(engine), Some(path)) if bridge.is_none() => {
            Some((engine.to_owned(), path.to_owned()))
        }
        _ => None,
    };
    let private_mounts = settings.private_mounts && bridge.is_none();
    let command = private_mounts.then(|| {
        let program = spec.program()?;
        Some(mounts::around(
            program,
            spec.args(),
            &path,
            &engine,
            is_root(),
        ))
    });
    // Labelled twice does no harm, and says in the process list whose it is.
    let labelled = spec.program().and_then(|program| {
        let creates = inject::find(program, spec.args())?;
        let args = creates.labelled(spec.args(), &labels);
        Some((program.to_owned(), args))
    });
    let is_labelled = labelled.is_some();
    let changes = Changes {
        command: command.flatten().or(labelled),
        engine: vec![
            ("DOCKER_HOST", format!("unix://{}", path.display()).into()),
            // For the way to the proxy, which is not the way to the engine.
            ("DOCKER_TLS_VERIFY", OsString::new()),
        ],
    };
    let spec = respec::with(spec, changes)?;
    let additions = Additions {
        labels,
        policy: settings.reap,
        sockets,
    };
    let proxy = Proxy::start(path.clone(), engine.clone(), additions, wills)?;
    socket::like(&engine, &path)?;
    let means = Means::Proxy {
        proxy,
        bridge,
        engine: Box::new(Engine::new(endpoint)),
        labelled: is_labelled,
    };
    Ok((spec, means))
}

fn by_labels(
    policy: ReapPolicy,
    spec: &ServerSpec,
    creates: &Creates,
    mut labels: HashMap<String, String>,
    env: BTreeMap<OsString, OsString>,
) -> Result<Prepared, Problem> {
    // The container *is* the server: tied to it, unless nothing ever is.
    let keep = !policy.ends(true);
    if keep {
        labels.insert(labels::ON_END.to_owned(), labels::KEEP.to_owned());
    }
    let program = spec.program().unwrap_or_default().to_owned();
    let known = ENGINE.into_iter().filter(|_| creates.is_docker);
    let engine = known.filter_map(|name| Some((name, env.get(OsStr::new(name))?.clone())));
    let changes = Changes {
        command: Some((program.clone(), creates.labelled(spec.args(), &labels))),
        engine: engine.collect(),
    };
    let cli = Cli {
        program,
        globals: creates.globals.clone(),
        env: env.into_iter().collect(),
        directory: spec.cwd().map(Path::to_owned),
    };
    Ok((respec::with(spec, changes)?, Means::Cli { cli, keep }))
}

fn take(host: &Mutex<Option<Host>>, settings: &Settings) -> std::io::Result<Host> {
    let mut host = host.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(host) = &*host {
        host.lease.refresh();
        return Ok(host.clone());
    }
    let lease = Arc::new(Lease::take(&settings.leases)?);
    lease.look_after()?;
    let wills = Wills::new(lease.instance());
    let wills = settings.last_will.then(|| Arc::new(wills));
    Ok(host.insert(Host { lease, wills }).clone())
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn creates(command: &str) -> Option<Creates> {
        let args: Vec<OsString> = command.split(' ').skip(1).map(Into::into).collect();
        inject::find(command.split(' ').next().unwrap().as_ref(), &args)
    }

    #[test]
    fn the_proxy_is_preferred_where_the_command_does_not_go_around_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let here = || Some(Endpoint::Unix(file.path().to_owned()));
        let far = || Some(Endpoint::Tcp("h:1".into()));
        let way = |command, upstream| choose(ProxyMode::Auto, creates(command), upstream);
        assert!(matches!(way("npx x", here()), Way::Proxy(_)));
        assert!(matches!(way("docker run i", here()), Way::Proxy(_)));
        assert!(matches!(way("docker -H x run i", here()), Way::Labels(_)));
        assert!(matches!(way("podman run i", here()), Way::Labels(_)));
        assert!(matches!(way("docker run i", far()), Way::Labels(_)));
        assert!(matches!(way("npx x", far()), Way::Proxy(_)));
        assert_eq!(way("npx x", None), Way::Untracked);
        let never = choose(ProxyMode::Never, None, here());
        assert_eq!(never, Way::Untracked);
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
