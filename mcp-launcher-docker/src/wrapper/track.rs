//! How one server is tracked: decided before it is launched.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mcp_lifecycle_core::error::LaunchErrorKind;
use mcp_lifecycle_core::{ProcessTerminator, ServerSpec};
use tokio::sync::oneshot;
use tracing::{debug, warn};

use super::cli::Cli;
use super::inject::{self, Creates};
use super::nested::{Means, Nested};
use super::policy::{Fate, ReapPolicy};
use super::proxy::{Marks, Proxy};
use super::respec::{self, Changes};
use super::socket;
use super::{ProxyMode, Settings, mounts};
use crate::endpoint::{Endpoint, Surroundings};
use crate::engine::Engine;
use crate::labels::{self, Role};
use crate::last_will::Wills;
use crate::lease::Lease;
use crate::random;

/// What became of the preparation.
pub(super) enum Preparation {
    Tracked(Tracked),
    /// There is nothing to track, or it cannot be, for this reason.
    Untracked(Option<String>),
}

/// A server whose containers will be found.
pub(super) struct Tracked {
    /// What to launch instead.
    pub(super) spec: ServerSpec,
    /// Takes the terminator of the server, once there is one.
    pub(super) server: oneshot::Sender<Arc<dyn ProcessTerminator>>,
    pub(super) nested: Arc<Nested>,
}

/// What a tracker keeps from its first server on.
#[derive(Debug, Clone)]
pub(super) struct Host {
    lease: Arc<Lease>,
    wills: Option<Arc<Wills>>,
}

/// By which means a server is tracked.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// Its containers cannot be told, or it cannot have any.
    Untracked,
    /// Through a proxy to the engine at this socket.
    Proxy(PathBuf),
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
    let launch = random::id().map_err(|error| backend("no randomness")(error.into()))?;
    let labels = labels::of_launch(&lease, &launch, spec.name(), Role::Nested);
    let (spec, means) = match way {
        Way::Untracked => {
            let problem = "the engine of this server is not behind a Unix socket here";
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

/// Why a server that may have containers is not tracked. One that has no engine
/// has none.
fn why_not(mode: ProxyMode, upstream: Option<&Endpoint>) -> Option<String> {
    let engine = upstream?;
    match engine.local_socket() {
        Some(socket) if !socket.exists() => None,
        Some(_) if mode == ProxyMode::Never => Some("as told by ProxyMode::Never".to_owned()),
        Some(_) => None,
        None => Some(format!(
            "the engine at {engine} is not behind a Unix socket here"
        )),
    }
}

fn choose(mode: ProxyMode, creates: Option<Creates>, upstream: Option<Endpoint>) -> Way {
    let socket = upstream.and_then(|endpoint| {
        let socket = endpoint.local_socket()?;
        socket.exists().then(|| socket.to_owned())
    });
    match (creates, socket, mode) {
        // The flags of the command beat its environment; podman and nerdctl
        // do not use the engine's API.
        (Some(creates), _, _) if creates.names_engine || !creates.is_docker => Way::Labels(creates),
        // The proxy labels as well, and has a fence.
        (_, Some(socket), ProxyMode::Auto | ProxyMode::Always) => Way::Proxy(socket),
        (Some(creates), _, _) => Way::Labels(creates),
        (None, _, _) => Way::Untracked,
    }
}

type Prepared = (ServerSpec, Means);
type Problem = mcp_lifecycle_core::error::BoxError;

fn by_proxy(
    settings: &Settings,
    lease: &Lease,
    wills: Option<Arc<Wills>>,
    spec: &ServerSpec,
    engine: PathBuf,
    labels: HashMap<String, String>,
) -> Result<Prepared, Problem> {
    let endpoint = Endpoint::Unix(engine.clone());
    lease.note(&endpoint.to_string())?;
    let launch = &labels[labels::LAUNCH];
    let path = socket::place(lease, &settings.lease_directory, launch, &engine)?;
    let sockets = match (engine.to_str(), path.to_str()) {
        (Some(engine), Some(path)) => Some((engine.to_owned(), path.to_owned())),
        _ => None,
    };
    let command = settings.private_mounts.then(|| {
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
        docker_host: Some(format!("unix://{}", path.display())),
    };
    let spec = respec::with(spec, changes)?;
    let marks = Marks {
        labels,
        policy: settings.reap,
        sockets,
    };
    let proxy = Proxy::start(path.clone(), engine.clone(), marks, wills)?;
    socket::like(&engine, &path)?;
    let means = Means::Proxy {
        proxy,
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
    let keep = policy.fate(true) == Fate::Keep;
    if keep {
        labels.insert(labels::ON_END.to_owned(), labels::KEEP.to_owned());
    }
    let program = spec.program().unwrap_or_default().to_owned();
    let changes = Changes {
        command: Some((program.clone(), creates.labelled(spec.args(), &labels))),
        docker_host: None,
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
    let directory = &settings.lease_directory;
    let lease = Arc::new(Lease::take(directory)?);
    lease.look_after()?;
    let wills = Wills::new(directory, lease.instance());
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
        assert_eq!(way("npx x", far()), Way::Untracked);
        assert_eq!(way("npx x", None), Way::Untracked);
        let never = choose(ProxyMode::Never, None, here());
        assert_eq!(never, Way::Untracked);
    }
}
