//! The stage of one experiment, and its judgement.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_lifecycle_core::launch::{
    ExitStatus, LaunchContext, LaunchedServer, ServerLauncher, ServerSpec,
};
use tokio::time::timeout;

use crate::FixtureCommand;
use crate::alive::{AliveConn, AliveListener};
use crate::census::Census;
use crate::contract::{self, Rule};
use crate::failure::{Check, Failure};
use crate::fixture::Fixture;
use crate::kit::Kit;
use crate::server::Server;

/// The launcher under test, in this process.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) kit: String,
    pub(crate) launcher: Arc<dyn ServerLauncher>,
    pub(crate) fixture: FixtureCommand,
    pub(crate) limit: Duration,
    pub(crate) rounds: u32,
    pub(crate) seed: u64,
    pub(crate) attaches_late: bool,
    pub(crate) loses_exits: Option<String>,
}

impl Subject {
    pub(crate) async fn new(kit: &Kit) -> Self {
        Self {
            kit: kit.name.clone(),
            launcher: (kit.launcher)().await,
            fixture: kit.fixture.clone(),
            limit: kit.limit,
            rounds: kit.rounds,
            seed: kit.seed,
            attaches_late: kit.attaches_late,
            loses_exits: kit.loses_exits.clone(),
        }
    }

    /// Launches and ends a plain server, and lets what is set up once come to rest.
    ///
    /// What a launcher sets up once (a thread, a connection) is not a leak; and what it
    /// declares may be known by its first launch only.
    pub(crate) async fn warm_up(self: &Arc<Self>) -> Check {
        const A_WHILE: Duration = Duration::from_millis(200);
        let stage = Stage::open(self, Fixture::plain())?;
        let result = async {
            let mut server = stage.start().await?;
            let _drains = server.drain();
            server.terminate(&stage.fixture.policy(self.limit)).await?;
            stage.all_dead().await
        };
        result
            .await
            .map_err(|failure| failure.during("the first launch").breaks(&contract::PROOF))?;
        drop(stage);
        // All that can be known of a launcher whose workings nobody knows.
        let deadline = Instant::now() + self.limit;
        let mut before = Census::take();
        while Instant::now() < deadline {
            tokio::time::sleep(A_WHILE).await;
            let now = Census::take();
            if before.difference(&now).is_none() {
                break;
            }
            before = now;
        }
        Ok(())
    }
}

/// An observer, a fixture, and the census to come back to.
pub(crate) struct Stage {
    pub(crate) subject: Arc<Subject>,
    pub(crate) fixture: Fixture,
    pub(crate) listener: AliveListener,
    before: Option<Census>,
}

impl Stage {
    /// A stage without a census.
    pub(crate) fn open(subject: &Arc<Subject>, fixture: Fixture) -> Check<Self> {
        Ok(Self {
            subject: Arc::clone(subject),
            fixture,
            listener: subject.fixture.listen()?,
            before: None,
        })
    }

    /// A stage after which this process holds on to nothing more, once it is warm.
    pub(crate) async fn open_counted(subject: &Arc<Subject>, fixture: Fixture) -> Check<Self> {
        subject.warm_up().await?;
        let stage = Self::open(subject, fixture)?;
        // After the observer, which has descriptors of its own.
        let before = Some(Census::take().allowing_less());
        Ok(Self { before, ..stage })
    }

    pub(crate) fn limit(&self) -> Duration {
        self.subject.limit
    }

    /// The fixture, reporting to our observer, under its own role.
    pub(crate) fn spec(&self) -> Check<ServerSpec> {
        self.spec_of(self.fixture.args())
    }

    /// The fixture with a command line of its own.
    pub(crate) fn spec_of(&self, args: &[&str]) -> Check<ServerSpec> {
        let address = self.listener.address();
        let args = args.iter().copied().chain(["--alive", &address]);
        Ok(self.subject.fixture.spec(args).build()?)
    }

    pub(crate) async fn launch(&self) -> Check<LaunchedServer> {
        self.launch_spec(&self.spec()?).await
    }

    pub(crate) async fn launch_spec(&self, spec: &ServerSpec) -> Check<LaunchedServer> {
        let context = LaunchContext::new();
        let launching = self.subject.launcher.launch(spec, &context);
        let launched = self
            .within("the launch", &contract::STARTS, launching)
            .await?;
        launched.map_err(|error| Failure::from(error).breaks(&contract::STARTS))
    }

    /// Launches the fixture, says its script, and waits until it misbehaves.
    pub(crate) async fn start(&self) -> Check<Server> {
        let mut server = Server::own(self.launch().await?);
        server.say(self.fixture.script, self.limit()).await?;
        match self.wait_for_all().await {
            Ok(()) => Ok(server),
            Err(failure) => Err(self.explained(failure, server).await),
        }
    }

    /// Launches the fixture; the caller waits for whom it wants to talk to.
    pub(crate) async fn start_unscripted(&self) -> Check<Server> {
        Ok(Server::own(self.launch().await?))
    }

    /// Launches this server of one process, and waits until it answers.
    pub(crate) async fn start_one(&self, spec: &ServerSpec) -> Check<(Server, AliveConn)> {
        let server = Server::own(self.launch_spec(spec).await?);
        let answering = async {
            // One that has ended says no hello later.
            let hello = tokio::select! {
                hello = self.listener.accept("server", self.limit()) => hello?,
                _ = server.terminator.exited() => {
                    self.listener.accept("server", self.limit() / 10).await?
                }
            };
            hello.ping(self.limit()).await?;
            Ok(hello)
        };
        match answering.await {
            Ok(process) => Ok((server, process)),
            Err(failure) => Err(self.explained(failure, server).await),
        }
    }

    /// The reason a server is not there, as far as that can be told.
    pub(crate) async fn explained(&self, failure: Failure, mut server: Server) -> Failure {
        let exited = timeout(self.limit() / 10, server.terminator.exited()).await;
        // Whatever it has told by now is read first.
        let _ = self.listener.alive_at_this_moment(self.limit()).await;
        let events = self.listener.connections();
        let saw_the_end = events
            .iter()
            .any(|conn| conn.events().iter().any(|e| e == "eof"));
        let last_words = server.last_words(self.limit() / 10).await;
        let failure = failure.followed_by(&last_words);
        match exited {
            _ if saw_the_end => failure
                .during("it saw the end of its standard input, which nobody has closed")
                .breaks(&contract::STREAMS),
            Ok(ExitStatus::Signal(9)) => failure
                .during("it was killed by a SIGKILL that nobody has ordered")
                .breaks(&contract::NO_THREAD),
            Ok(status) => failure
                .during(format_args!("it has ended by itself ({status})"))
                .breaks(&contract::STARTS),
            Err(_) => failure.breaks(&contract::STARTS),
        }
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
        if !self.subject.fixture.is_observed_exactly() {
            return self.all_dead().await;
        }
        let alive = self.listener.alive_at_this_moment(self.limit()).await?;
        if alive.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = alive.iter().map(ToString::to_string).collect();
        let failure = format!("proven gone, and still alive: {}", names.join(", "));
        Err(match self.all_dead().await {
            Ok(()) => Failure::new(failure + " (ended a little later)").breaks(&contract::PROOF),
            Err(_) => Failure::new(failure).breaks(&contract::REACH),
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

    /// The judgement that every experiment ends with: nobody is alive, and this process
    /// holds on to nothing.
    pub(crate) async fn close(&self) -> Check {
        self.all_dead().await?;
        let Some(before) = &self.before else {
            return Ok(());
        };
        let settled = before.settle_async(self.limit()).await;
        settled.map_err(|difference| Failure::from(difference).breaks(&contract::NOTHING_KEPT))
    }

    /// Waits for what should take no time.
    pub(crate) async fn within<F: Future>(
        &self,
        what: &str,
        rule: &'static Rule,
        future: F,
    ) -> Check<F::Output> {
        let late = |_| Failure::new(format!("{what} does not come in {:?}", self.limit()));
        let waited = timeout(self.limit(), future).await;
        waited.map_err(|elapsed| late(elapsed).breaks(rule))
    }
}
