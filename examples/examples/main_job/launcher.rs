//! Which launcher starts the server.

pub(crate) mod docker;
pub(crate) mod executor;
pub(crate) mod kubernetes;

use std::sync::Arc;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::ServerLauncher;

use crate::arguments::{Arguments, LauncherName};

pub(crate) async fn choose(arguments: &Arguments) -> Result<Arc<dyn ServerLauncher>, String> {
    match arguments.launcher {
        LauncherName::Docker => docker::launcher().await,
        LauncherName::Local => {
            let launcher = LocalLauncher::new();
            // So that what it can do is known, and printed, before the launch.
            launcher.probe().await;
            Ok(Arc::new(launcher))
        }
        LauncherName::Kubernetes => kubernetes::launcher(&arguments.kubernetes),
        LauncherName::Executor => executor::launcher(&arguments.executor).await,
    }
}
