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

impl KubernetesLauncherBuilder {
    pub(super) fn new() -> Self {
        Self {
            source: Source::default(),
            settings: Settings::default(),
        }
    }

    /// Sets the kubeconfig, instead of `KUBECONFIG`, `~/.kube/config` or the service account of
    /// the host's own pod, in this order.
    pub fn kubeconfig(mut self, path: impl Into<PathBuf>) -> Self {
        self.source.kubeconfig = Some(path.into());
        self
    }

    /// Sets the context of the kubeconfig, instead of its current one.
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.source.context = Some(name.into());
        self
    }

    /// Sets the namespace, instead of that of the context or of the host's own pod.
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.source.namespace = Some(name.into());
        self
    }

    /// Sets the image of servers that name none.
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.settings.image = Some(image.into());
        self
    }

    /// Sets process 1 of servers that name none.
    pub fn init(mut self, init: Init) -> Self {
        self.settings.init = Some(init);
        self
    }

    /// Sets how long the host's Lease is valid without a renewal: 8 s to 120 s, 40 s by default. It
    /// is renewed four times as often. A search needs as long to detect a dead host, and a host
    /// that cannot renew for as long loses its servers.
    pub fn lease(mut self, valid: Duration) -> Self {
        self.settings.lease = valid;
        self
    }

    /// Sets the keep-alive interval of a session: at least 1 s, 20 s by default. It must be shorter
    /// than the idle timeout of every proxy and load balancer on the way.
    pub fn keep_alive(mut self, every: Duration) -> Self {
        self.settings.keep_alive = every.max(Duration::from_secs(1));
        self
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
