use std::path::PathBuf;
use std::time::Duration;

use super::{KubernetesLauncher, Settings};
use crate::cluster::Source;
use crate::options::Init;

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
    pub(super) fn new() -> Self {
        Self {
            source: Source::default(),
            settings: Settings::default(),
        }
    }

    /// Builds the launcher. Nothing is read or connected to before the first launch.
    ///
    /// # Errors
    ///
    /// When the system has no randomness to give.
    pub fn build(self) -> std::io::Result<KubernetesLauncher> {
        KubernetesLauncher::from(self.source, self.settings)
    }
}
