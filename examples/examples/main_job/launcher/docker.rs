//! In a container, through the Docker Engine API.

use std::sync::Arc;

use clap::Args;
use mcp_launcher_docker::{ContainerOptions, DockerLauncher, PullPolicy};
use mcp_lifecycle_core::ServerLauncher;
use mcp_lifecycle_core::launch::{ErrorChain, ServerSpecBuilder};

/// The container that the server runs in.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --launcher docker, the image also with kubernetes")]
#[group(id = "docker_options")]
pub(crate) struct Options {
    /// The image. Its own entry point is the server, unless a command is given.
    #[arg(long)]
    image: Option<String>,

    /// The network: `none`, `bridge`, `host`, or a name.
    #[arg(long)]
    network: Option<String>,

    /// Let nothing but mounts be written to.
    #[arg(long)]
    read_only: bool,

    /// Never pull: a missing image is an error.
    #[arg(long)]
    no_pull: bool,
}

impl Options {
    pub(crate) fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    /// The name of a server that is described by its image alone.
    pub(crate) fn server_name(&self) -> &str {
        let name = self.image.as_deref().unwrap_or("server");
        let name = name.rsplit('/').next().unwrap_or(name);
        name.split([':', '@']).next().unwrap_or(name)
    }

    pub(crate) fn apply(&self, spec: ServerSpecBuilder) -> Result<ServerSpecBuilder, String> {
        let Some(image) = &self.image else {
            return Err("--launcher docker needs --image".to_owned());
        };
        let mut options = ContainerOptions::new(image).read_only_root(self.read_only);
        if let Some(network) = &self.network {
            options = options.network(network);
        }
        if self.no_pull {
            options = options.pull(PullPolicy::Never);
        }
        Ok(options.apply(spec))
    }
}

/// A launcher for the engine that the docker CLI would use. What a host that
/// died left behind is ended first.
pub(crate) async fn launcher() -> Result<Arc<dyn ServerLauncher>, String> {
    let launcher = DockerLauncher::new().map_err(|error| ErrorChain(&error).to_string())?;
    let orphans = launcher.reap_orphans().await;
    let orphans = orphans.map_err(|error| ErrorChain(&error).to_string())?;
    for orphan in orphans.ended {
        println!("orphan:      {} {} ended", orphan.id, orphan.name);
    }
    Ok(Arc::new(launcher))
}
