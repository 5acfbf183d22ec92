//! In a pod, through the Kubernetes API.

use std::sync::Arc;

use clap::Args;
use mcp_launcher_kubernetes::{KubernetesLauncher, PodOptions};
use mcp_lifecycle_core::ServerLauncher;
use mcp_lifecycle_core::launch::ServerSpecBuilder;

/// Where the pod is. Its image is `--image`.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --launcher kubernetes")]
#[group(id = "kubernetes_options")]
pub(crate) struct Options {
    /// The namespace, instead of that of the kubeconfig's context.
    #[arg(long)]
    namespace: Option<String>,

    /// The context of the kubeconfig, instead of its current one.
    #[arg(long)]
    context: Option<String>,

    /// The number of the user that the server runs as; by default the image's, which must not be root.
    #[arg(long, value_name = "NUMBER")]
    run_as_user: Option<i64>,

    /// Fields of the pod, as JSON in the API's names.
    #[arg(long, value_name = "JSON")]
    pod: Option<String>,
}

impl Options {
    pub(crate) fn apply(
        &self,
        image: Option<&str>,
        spec: ServerSpecBuilder,
    ) -> Result<ServerSpecBuilder, String> {
        let Some(image) = image else {
            return Err("--launcher kubernetes needs --image".to_owned());
        };
        let mut options = PodOptions::new(image);
        if let Some(user) = self.run_as_user {
            options = options.run_as_user(user);
        }
        if let Some(fields) = &self.pod {
            let fields: serde_json::Value = serde_json::from_str(fields)
                .map_err(|error| format!("--pod is not JSON: {error}"))?;
            options = options.pod(fields);
        }
        Ok(options.apply(spec))
    }
}

/// A launcher for the cluster that `kubectl` would use. What hosts that died left behind is
/// for a host that stays: a search takes as long as a Lease is valid.
pub(crate) fn launcher(options: &Options) -> Result<Arc<dyn ServerLauncher>, String> {
    let mut launcher = KubernetesLauncher::builder();
    if let Some(namespace) = &options.namespace {
        launcher = launcher.namespace(namespace);
    }
    if let Some(context) = &options.context {
        launcher = launcher.context(context);
    }
    let launcher = launcher.build().map_err(|error| error.to_string())?;
    Ok(Arc::new(launcher))
}
