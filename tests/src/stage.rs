//! Where one experiment takes place, and how it is judged.

use std::time::Duration;

use mcp_lifecycle_core::launch::{LaunchContext, LaunchedServer, ServerSpec};
use tokio::time::timeout;

use crate::Conformance;
use crate::alive::AliveListener;
use crate::census::Census;
use crate::failure::{Check, Failure, ensure};
use crate::fixture::Fixture;
use crate::server::Server;

/// An observer, a fixture, and the census to come back to.
pub(crate) struct Stage {
    pub(crate) kit: Conformance,
    pub(crate) fixture: Fixture,
    pub(crate) listener: AliveListener,
    before: Census,
}

impl Stage {
    pub(crate) fn open(kit: &Conformance, fixture: Fixture) -> Check<Self> {
        Ok(Self {
            kit: kit.clone(),
            fixture,
            // Before the census: the observer has descriptors of its own.
            listener: kit.fixture.listen()?,
            before: Census::take(),
        })
    }

    pub(crate) fn limit(&self) -> Duration {
        self.kit.limit
    }

    /// The fixture, reporting to our observer, under its own role.
    pub(crate) fn spec(&self) -> Check<ServerSpec> {
        self.spec_of(self.fixture.args())
    }

    /// The fixture with a command line of its own.
    pub(crate) fn spec_of(&self, args: &[&str]) -> Check<ServerSpec> {
        let address = self.listener.address();
        let args = args.iter().copied().chain(["--alive", &address]);
        Ok(self.kit.fixture.spec(args)?)
    }

    pub(crate) async fn launch(&self) -> Check<LaunchedServer> {
        self.launch_spec(&self.spec()?).await
    }

    pub(crate) async fn launch_spec(&self, spec: &ServerSpec) -> Check<LaunchedServer> {
        match timeout(
            self.limit(),
            self.kit.launcher.launch(spec, &LaunchContext::new()),
        )
        .await
        {
            Ok(launched) => Ok(launched?),
            Err(_) => Err(Failure::new("the launch does not return")),
        }
    }

    /// Launches the fixture, says its script, and waits until it misbehaves.
    pub(crate) async fn start(&self) -> Check<Server> {
        let mut server = Server::own(self.launch().await?);
        server.say(self.fixture.script, self.limit()).await?;
        self.wait_for_all().await?;
        Ok(server)
    }

    /// Launches the fixture; the caller waits for whom it wants to talk to.
    pub(crate) async fn start_unscripted(&self) -> Check<Server> {
        Ok(Server::own(self.launch().await?))
    }

    /// Waits until everybody of the fixture is there, and misbehaves.
    pub(crate) async fn wait_for_all(&self) -> Check {
        for role in self.fixture.roles() {
            let process = self.listener.accept(&role, self.limit()).await?;
            if let ("server", Some(event)) = (&*role, self.fixture.tells) {
                process.event(event, self.limit()).await?;
            }
        }
        Ok(())
    }

    /// All dead, now: a proof was given.
    pub(crate) async fn all_dead_now(&self) -> Check {
        if !self.kit.fixture.is_observed_exactly() {
            return self.all_dead().await;
        }
        let alive = self.listener.alive_at_this_moment(self.limit()).await?;
        ensure(alive.is_empty(), || {
            let names: Vec<_> = alive.iter().map(ToString::to_string).collect();
            format!("proven gone, and still alive: {}", names.join(", "))
        })
    }

    /// All dead, soon: nobody has claimed anything yet.
    pub(crate) async fn all_dead(&self) -> Check {
        Ok(self.listener.expect_all_dead(self.limit()).await?)
    }

    /// Gives whatever was started before, and has not connected yet, the time
    /// to do so: servers that are started later have connected and ended.
    pub(crate) async fn send_canaries(&self) -> Check {
        for _ in 0..2 {
            let spec = self.spec_of(&["plain", "--role", "canary"])?;
            let canary = Server::own(self.launch_spec(&spec).await?);
            self.listener.accept("canary", self.limit()).await?;
            canary
                .terminate(&Fixture::plain().policy(self.limit()))
                .await
                .map_err(|failure| failure.during("ending a canary"))?;
        }
        Ok(())
    }

    /// This process holds on to nothing.
    pub(crate) async fn settle(&self) -> Check {
        Ok(self.before.settle_async(self.limit()).await?)
    }

    /// The judgement that every experiment ends with.
    pub(crate) async fn close(&self) -> Check {
        self.all_dead().await?;
        self.settle().await
    }
}
