//! Which launcher starts the server.

use std::sync::Arc;

use mcp_launcher_local::LocalLauncher;
use mcp_lifecycle_core::ServerLauncher;

use crate::arguments::{Arguments, LauncherName};

pub(crate) fn choose(arguments: &Arguments) -> Result<Arc<dyn ServerLauncher>, String> {
    match arguments.launcher {
        LauncherName::Local => Ok(Arc::new(LocalLauncher::new())),
    }
}
