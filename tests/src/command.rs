//! How a launcher is told to run the fixture.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use mcp_lifecycle_core::launch::{ServerSpec, SpecError};

use crate::alive::AliveListener;

type Make = dyn Fn(Vec<String>) -> Result<ServerSpec, SpecError> + Send + Sync;

/// How the launcher under test runs `mcp-fixture`, and how the fixture reaches
/// the observer from there.
#[derive(Clone)]
pub struct FixtureCommand {
    make: Arc<Make>,
    observe: Observe,
}

#[derive(Debug, Clone, Copy)]
enum Observe {
    Unix,
    Tcp(SocketAddr),
}

impl FixtureCommand {
    /// A program on this machine, which shares our file system.
    pub fn local(program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        Self::new(move |args| {
            ServerSpec::builder("fixture", program.as_os_str())
                .args(args)
                .build()
        })
    }

    /// Whatever the launcher needs to run the fixture with these arguments.
    pub fn new(
        make: impl Fn(Vec<String>) -> Result<ServerSpec, SpecError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            make: Arc::new(make),
            observe: Observe::Unix,
        }
    }

    /// Observes over TCP, listening on `address` (port 0: any): for a fixture
    /// that does not share our file system. It must be reachable from there
    /// under this very address.
    #[must_use]
    pub fn observed_over_tcp(mut self, address: SocketAddr) -> Self {
        self.observe = Observe::Tcp(address);
        self
    }

    /// The specification of the fixture with these arguments.
    ///
    /// # Errors
    ///
    /// [`SpecError`], when the closure made an invalid one.
    pub fn spec<A: Into<String>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> Result<ServerSpec, SpecError> {
        (self.make)(args.into_iter().map(Into::into).collect())
    }

    pub(crate) fn listen(&self) -> io::Result<AliveListener> {
        match self.observe {
            Observe::Unix => AliveListener::unix(),
            Observe::Tcp(address) => AliveListener::tcp_on(address),
        }
    }

    /// Whether the observer knows of a death no later than the kernel does.
    pub(crate) fn is_observed_exactly(&self) -> bool {
        matches!(self.observe, Observe::Unix)
    }
}

impl fmt::Debug for FixtureCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixtureCommand")
            .field("observe", &self.observe)
            .finish_non_exhaustive()
    }
}
