use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mcp_lifecycle_core::backend::random;
use mcp_lifecycle_core::launch::{
    LaunchContext, LaunchError, LaunchErrorKind, LaunchedServer, ReapError, ReapReport,
    ServerLauncher, ServerSpec, TerminationSemantics,
};

use crate::cluster::{Cluster, Source, Watcher};
use crate::control::CONTROL;
use crate::error::{Case, ClusterError};
use crate::lease::{self, Leases};
use crate::options::{Defaults, Init, Owner, PodOptions, plan};
use crate::pod::{self, Job};
use crate::{labels, orphans};

const NAME: &str = "kubernetes";

/// Launches servers as pods, through the Kubernetes API.
///
/// See the [crate](crate) for what is guaranteed. Cheap to clone; clones are one owner.
///
/// # Drop
///
/// Servers that were launched keep running: each has its own owner.
#[derive(Clone)]
pub struct KubernetesLauncher {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: Arc<Cluster>,
    instance: String,
    watcher: Watcher,
    leases: Leases,
    settings: Settings,
}

#[derive(Debug, Clone)]
struct Settings {
    image: Option<String>,
    init: Option<Init>,
    lease: Duration,
    keep_alive: Duration,
}

impl KubernetesLauncher {
    /// Creates a launcher for the cluster that `kubectl` would use, or that the host's own pod is
    /// in. Nothing is read or connected to before the first launch.
    ///
    /// # Errors
    ///
    /// When the system has no randomness to give.
    pub fn new() -> std::io::Result<Self> {
        Self::builder().build()
    }

    /// Returns a builder, to set more than the defaults.
    pub fn builder() -> KubernetesLauncherBuilder {
        KubernetesLauncherBuilder {
            source: Source::default(),
            settings: Settings {
                image: None,
                init: None,
                lease: lease::VALID,
                keep_alive: pod::KEEP_ALIVE,
            },
        }
    }

    /// Returns the value of the label `dev.mcp-lifecycle.instance` on all objects of this launcher.
    pub fn instance(&self) -> &str {
        &self.shared.instance
    }

    fn from(source: Source, settings: Settings) -> std::io::Result<Self> {
        let cluster = Arc::new(Cluster::new(source));
        let instance = random::id()?;
        let watcher = Watcher::new(Arc::clone(&cluster), labels::of_instance(&instance));
        let leases = Leases::new(Arc::clone(&cluster), instance.clone(), settings.lease);
        Ok(Self {
            shared: Arc::new(Shared {
                cluster,
                instance,
                watcher,
                leases,
                settings,
            }),
        })
    }

    fn job(&self, spec: &ServerSpec, context: &LaunchContext) -> Result<Job, LaunchError> {
        let invalid = |e| LaunchError::new(NAME, spec, LaunchErrorKind::InvalidSpec(e));
        let Shared {
            cluster,
            instance,
            watcher,
            leases,
            settings,
        } = &*self.shared;
        let options = PodOptions::of(spec).map_err(invalid)?;
        let launch = random::id().map_err(|error| failed(spec, error.into()))?;
        let name = labels::pod_name(spec.name(), &launch);
        let owner = Owner {
            name: name.clone(),
            labels: labels::of_launch(instance, &launch, spec.name()),
        };
        let defaults = Defaults {
            image: settings.image.as_deref(),
            init: settings.init,
        };
        let env = |name: &std::ffi::OsStr| std::env::var_os(name);
        let plan = plan(spec, options, defaults, owner, env).map_err(invalid)?;
        Ok(Job {
            cluster: Arc::clone(cluster),
            watcher: watcher.clone(),
            leases: leases.clone(),
            plan,
            name,
            launch,
            keep_alive: settings.keep_alive,
            context: context.clone(),
        })
    }
}

#[async_trait]
impl ServerLauncher for KubernetesLauncher {
    fn name(&self) -> &str {
        NAME
    }

    fn fingerprint(&self) -> Option<String> {
        let source = &self.shared.cluster.source;
        Some(format!("{source:?} {:?}", self.shared.settings))
    }

    fn semantics(&self) -> TerminationSemantics {
        // Unless set here, this depends on the specification.
        pod::semantics(self.shared.settings.init == Some(Init::Supervised))
    }

    /// Connects, which may run a program for credentials, and creates the ConfigMap of the
    /// supervised init. The API cannot pull an image ahead: the pod's node does so within the
    /// launch.
    async fn prepare(&self, spec: &ServerSpec, context: &LaunchContext) -> Result<(), LaunchError> {
        let job = self.job(spec, context)?;
        let prepared = CONTROL.run(async move { pod::prepare(&job, &job.patience()).await });
        prepared.await.map_err(|error| {
            let kind = LaunchErrorKind::backend("the launch could not be prepared", error);
            LaunchError::new(NAME, spec, kind)
        })
    }

    async fn launch(
        &self,
        spec: &ServerSpec,
        context: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        let job = self.job(spec, context)?;
        let launched = CONTROL.cancellable(|cancelled| pod::launch(job, cancelled));
        let launched = launched.await.map_err(ClusterError::from).flatten();
        launched.map_err(|error| failed(spec, error))
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        let cluster = Arc::clone(&self.shared.cluster);
        let own = self.shared.instance.clone();
        let reaped = CONTROL
            .run(async move { orphans::reap(&cluster, &own).await })
            .await;
        reaped.map_err(|error| ReapError::new(NAME, error))
    }
}

fn failed(spec: &ServerSpec, error: ClusterError) -> LaunchError {
    let limit = |what: &str, error: ClusterError| LaunchErrorKind::Limit {
        what: what.to_owned(),
        cause: Some(error.into()),
    };
    let kind = match error.case {
        Case::Quota => limit(
            "the quota of the namespace; raise it, or ask for less",
            error,
        ),
        Case::Unschedulable => limit("the nodes of the cluster", error),
        _ => LaunchErrorKind::backend("the pod could not be started", error),
    };
    LaunchError::new(NAME, spec, kind)
}

mcp_lifecycle_core::debug_fields! { KubernetesLauncher, it {
    source: &it.shared.cluster.source,
    instance: &it.shared.instance,
    settings: &it.shared.settings,
} }

/// Settings of a [`KubernetesLauncher`].
#[derive(Debug, Clone)]
#[must_use = "nothing is launched until `build`"]
pub struct KubernetesLauncherBuilder {
    source: Source,
    settings: Settings,
}

mcp_lifecycle_core::setters! { KubernetesLauncherBuilder:
    /// Sets the kubeconfig, instead of `KUBECONFIG`, `~/.kube/config` or the service account of
    /// the host's own pod, in this order.
    kubeconfig(path: impl Into<PathBuf>) |it| it.source.kubeconfig = Some(path.into());
    /// Sets the context of the kubeconfig, instead of its current one.
    context(name: impl Into<String>) |it| it.source.context = Some(name.into());
    /// Sets the namespace, instead of that of the context or of the host's own pod.
    namespace(name: impl Into<String>) |it| it.source.namespace = Some(name.into());
    /// Sets the image of servers that name none.
    image(image: impl Into<String>) |it| it.settings.image = Some(image.into());
    /// Sets process 1 of servers that name none.
    init(init: Init) |it| it.settings.init = Some(init);
    /// Sets how long the host's Lease is valid without a renewal: 8 s to 120 s, 40 s by default. It
    /// is renewed four times as often. A search needs as long to detect a dead host, and a host
    /// that cannot renew for as long loses its servers.
    lease(valid: Duration) |it| it.settings.lease = valid;
    /// Sets the keep-alive interval of a session: at least 1 s, 20 s by default. It must be shorter
    /// than the idle timeout of every proxy and load balancer on the way.
    keep_alive(every: Duration) |it| it.settings.keep_alive = every.max(Duration::from_secs(1));
}

impl KubernetesLauncherBuilder {
    /// Builds the launcher. Nothing is read or connected to before the first launch.
    ///
    /// # Errors
    ///
    /// When the system has no randomness to give.
    pub fn build(self) -> std::io::Result<KubernetesLauncher> {
        KubernetesLauncher::from(self.source, self.settings)
    }
}

#[cfg(test)]
mod tests;
