//! The command by which a launcher runs the fixture.

use std::net::SocketAddr;
#[cfg(windows)]
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use mcp_lifecycle_core::launch::{ServerSpec, ServerSpecBuilder};

use crate::alive::AliveListener;
use crate::{cell, program};

type Make = dyn Fn(Vec<String>) -> ServerSpecBuilder + Send + Sync;

/// The command by which the launcher under test runs `mcp-fixture`, and the way the fixture reaches
/// the observer from there.
#[derive(Clone)]
pub struct FixtureCommand {
    make: Arc<Make>,
    observe: Observe,
    runs_here: bool,
}

#[derive(Debug, Clone, Copy)]
enum Observe {
    #[cfg(unix)]
    Unix,
    Tcp(SocketAddr),
}

#[cfg(unix)]
const HERE: Observe = Observe::Unix;
#[cfg(windows)]
const HERE: Observe = Observe::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));

impl FixtureCommand {
    /// The test program itself, started on this machine: the default.
    pub fn this_program() -> Self {
        // Found now: a host without its first thread cannot find it.
        let program = cell::this_program().get_program().to_owned();
        let make = move |args: Vec<String>| {
            ServerSpec::builder("fixture", &program)
                .arg(program::INSIDE)
                .args(args)
        };
        Self {
            runs_here: true,
            ..Self::new(make)
        }
    }

    /// A program on this machine that calls [`fixture_main`](crate::fixture_main).
    pub fn local(program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        let make = move |args| ServerSpec::builder("fixture", program.as_os_str()).args(args);
        Self {
            runs_here: true,
            ..Self::new(make)
        }
    }

    /// Takes what the launcher needs to run, with these arguments, a program that calls
    /// [`fixture_main`](crate::fixture_main).
    pub fn new(make: impl Fn(Vec<String>) -> ServerSpecBuilder + Send + Sync + 'static) -> Self {
        Self {
            make: Arc::new(make),
            observe: HERE,
            runs_here: false,
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
    pub fn spec<A: Into<String>>(&self, args: impl IntoIterator<Item = A>) -> ServerSpecBuilder {
        (self.make)(args.into_iter().map(Into::into).collect())
    }

    pub(crate) fn listen(&self) -> io::Result<AliveListener> {
        match self.observe {
            #[cfg(unix)]
            Observe::Unix => AliveListener::unix(),
            Observe::Tcp(address) => AliveListener::tcp_on(address),
        }
    }

    /// Returns whether the fixture is a process on this machine that anybody may start.
    pub(crate) fn runs_here(&self) -> bool {
        self.runs_here
    }

    /// Returns whether the observer knows of a death no later than the kernel does.
    pub(crate) fn is_observed_exactly(&self) -> bool {
        !matches!(self.observe, Observe::Tcp(_))
    }
}

impl fmt::Debug for FixtureCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixtureCommand")
            .field("observe", &self.observe)
            .finish_non_exhaustive()
    }
}
