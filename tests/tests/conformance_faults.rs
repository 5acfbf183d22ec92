//! The kit proves itself: a planted fault turns its cell red.

use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mcp_launcher_local::{Isolation, LocalLauncher};
use mcp_lifecycle_conformance::host::{self, HostCommand};
use mcp_lifecycle_conformance::{Conformance, FixtureCommand, Matrix, Verdict, Way, run};
use mcp_lifecycle_core::launch::{
    Containment, Evidence, ExitStatus, Gone, LaunchContext, LaunchError, LaunchedServer,
    ProcessTerminator, Reach, ReapError, ReapReport, Remnant, ServerIdentity, ServerLauncher,
    ServerSpec, StepError, TerminationSemantics,
};

/// What is wrong with a launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It reaches the group and declares the tree.
    DeclaresTree,
    /// It declares that servers end with their host.
    DeclaresHostDeath,
    /// It says "gone" when it was asked to end the server.
    EarlyProof,
    /// It never says "gone".
    NoProof,
    /// It keeps a descriptor of each launch.
    KeepsDescriptor,
    /// It starts a process that it does not reap.
    LeavesZombie,
    /// Its last resort does nothing.
    KillsNot,
    /// A launch goes on when it was dropped, and its server as well.
    LosesCancelledLaunch,
    /// Its polite signal is not sent.
    SignalsNot,
    /// It does not look how the server exited.
    GuessesExit,
    /// It names no survivors.
    NamesNobody,
}

/// A launcher with a fault.
#[derive(Debug, Clone)]
struct Faulty {
    inner: LocalLauncher,
    fault: Fault,
}

#[derive(Debug)]
struct FaultyTerminator {
    inner: Arc<dyn ProcessTerminator>,
    fault: Fault,
}

fn semantics_with(mut semantics: TerminationSemantics, fault: Fault) -> TerminationSemantics {
    semantics.containment = match fault {
        Fault::DeclaresTree => Containment::new("planted", Reach::Container),
        Fault::DeclaresHostDeath => Containment::new("planted", Reach::Group)
            .with_host_death(Reach::Process)
            .with_atomic_placement(),
        _ => Containment::new("planted", Reach::Group),
    };
    semantics
}

#[async_trait]
impl ServerLauncher for Faulty {
    fn name(&self) -> &str {
        "faulty"
    }

    fn semantics(&self) -> TerminationSemantics {
        semantics_with(self.inner.semantics(), self.fault)
    }

    async fn launch(
        &self,
        spec: &ServerSpec,
        context: &LaunchContext,
    ) -> Result<LaunchedServer, LaunchError> {
        match self.fault {
            Fault::KeepsDescriptor => std::mem::forget(File::open("/dev/null").unwrap()),
            Fault::LeavesZombie => drop(
                Command::new(env!("CARGO_BIN_EXE_mcp-fixture"))
                    .arg("crash-loop")
                    .stdin(Stdio::null())
                    .spawn()
                    .unwrap(),
            ),
            _ => {}
        }
        let launched = match self.fault {
            Fault::LosesCancelledLaunch => self.launch_in_the_background(spec).await?,
            _ => self.inner.launch(spec, context).await?,
        };
        let fault = self.fault;
        Ok(launched.map_terminator(|inner| Arc::new(FaultyTerminator { inner, fault })))
    }

    async fn reap_orphans(&self) -> Result<ReapReport, ReapError> {
        self.inner.reap_orphans().await
    }
}

impl Faulty {
    async fn launch_in_the_background(
        &self,
        spec: &ServerSpec,
    ) -> Result<LaunchedServer, LaunchError> {
        let (inner, spec) = (self.inner.clone(), spec.clone());
        let (sender, receiver) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            if let Err(unwanted) = sender.send(inner.launch(&spec, &LaunchContext::new()).await) {
                std::mem::forget(unwanted);
            }
        });
        // Never done in one poll, however fast the others are.
        tokio::task::yield_now().await;
        receiver.await.unwrap()
    }
}

#[async_trait]
impl ProcessTerminator for FaultyTerminator {
    fn identity(&self) -> ServerIdentity {
        self.inner.identity()
    }

    fn semantics(&self) -> TerminationSemantics {
        semantics_with(self.inner.semantics(), self.fault)
    }

    async fn exited(&self) -> ExitStatus {
        match (self.inner.exited().await, self.fault) {
            (_, Fault::GuessesExit) => ExitStatus::Code(0),
            (status, _) => status,
        }
    }

    async fn request_end(&self) -> Result<(), StepError> {
        match self.fault {
            Fault::SignalsNot => Ok(()),
            _ => self.inner.request_end().await,
        }
    }

    async fn force_end(&self) -> Result<(), StepError> {
        self.inner.force_end().await
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        match self.fault {
            Fault::EarlyProof => Ok(Gone::proven_by(Evidence::Reaped)),
            Fault::NoProof => std::future::pending().await,
            _ => self.inner.gone().await,
        }
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        match self.fault {
            Fault::NamesNobody => Ok(Vec::new()),
            _ => self.inner.survivors().await,
        }
    }

    fn kill_now(&self) {
        if self.fault != Fault::KillsNot {
            self.inner.kill_now();
        }
    }
}

/// The launcher that the faults are planted in: it reaches the group.
fn weak() -> LocalLauncher {
    LocalLauncher::new().isolation(Isolation::ProcessGroup)
}

fn fixture() -> FixtureCommand {
    FixtureCommand::local(env!("CARGO_BIN_EXE_mcp-fixture"))
}

/// Runs a part of the kit on a launcher with this fault.
fn run_on(fault: Fault, fixtures: &[&str], ways: &[Way]) -> Matrix {
    /// The census counts the whole process: tests take turns.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);

    let inner = weak();
    let mut kit = Conformance::new(Arc::new(Faulty { inner, fault }), fixture())
        .host(HostCommand::this_test("host").unwrap())
        .fixtures(fixtures.iter().copied())
        .ways(ways.iter().copied())
        .rounds(3)
        // What does not happen is waited for no longer than that.
        .limit(Duration::from_secs(1));
    let is_declared_falsely = ways.is_empty() || fault == Fault::DeclaresTree;
    if !is_declared_falsely {
        kit = kit.without_experiments();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run(&kit))
}

#[track_caller]
fn assert_red(matrix: &Matrix, place: &str, why: &str) {
    let failures = matrix.failures();
    let found = failures.iter().find(|(at, _)| at == place);
    assert!(
        found.is_some_and(|(_, text)| text.contains(why)),
        "{place:?} is not red for {why:?}:\n{matrix}"
    );
}

/// The host that the kit kills.
#[tokio::test]
#[ignore = "the role of a host in the tests above"]
async fn host() {
    let (inner, fault) = (weak(), Fault::DeclaresHostDeath);
    host::run_if_asked(Arc::new(Faulty { inner, fault }), &fixture()).await;
}

#[test]
fn a_reach_that_is_not_there() {
    let matrix = run_on(Fault::DeclaresTree, &["helper", "setsid"], &[Way::Graceful]);
    assert_eq!(matrix.cell("helper", Way::Graceful), Some(&Verdict::Pass));
    assert_red(&matrix, "setsid x graceful", "setsid (pid");
    assert_red(&matrix, "a forced end reaches as far as declared", "alive");
}

#[test]
fn servers_that_outlive_their_host() {
    let matrix = run_on(
        Fault::DeclaresHostDeath,
        &["plain", "ignore-eof", "helper"],
        &[Way::HostKilled, Way::Spawning],
    );
    // A server that leaves at the end of its stdin needs nobody's help.
    assert_eq!(matrix.cell("plain", Way::HostKilled), Some(&Verdict::Pass));
    assert_eq!(matrix.cell("plain", Way::Spawning), Some(&Verdict::Pass));
    assert_eq!(matrix.cell("helper", Way::Spawning), Some(&Verdict::Beyond));
    assert_red(&matrix, "ignore-eof x host killed", "1 still alive");
}

#[test]
fn a_proof_that_comes_too_early() {
    let matrix = run_on(Fault::EarlyProof, &["ignore-eof"], &[Way::Graceful]);
    assert_red(&matrix, "ignore-eof x graceful", "proven gone, and still");
}

#[test]
fn a_proof_that_never_comes() {
    let matrix = run_on(Fault::NoProof, &["plain"], &[Way::Graceful, Way::InFlight]);
    assert_red(&matrix, "plain x graceful", "not proven gone");
    assert_red(&matrix, "plain x in flight", "not proven gone");
}

#[test]
fn a_descriptor_that_is_kept() {
    let matrix = run_on(Fault::KeepsDescriptor, &["plain"], &[Way::Graceful]);
    assert_red(&matrix, "plain x graceful", "+ fd /dev/null");
}

#[test]
fn a_zombie() {
    let matrix = run_on(Fault::LeavesZombie, &["plain"], &[Way::Concurrent]);
    assert_red(&matrix, "plain x concurrent", "+ zombie");
}

#[test]
fn a_last_resort_that_does_nothing() {
    let ways = [Way::Drop, Way::NoRuntime, Way::Graceful];
    let matrix = run_on(Fault::KillsNot, &["ignore-eof-term"], &ways);
    assert_red(&matrix, "ignore-eof-term x no runtime", "still alive");
    let graceful = matrix.cell("ignore-eof-term", Way::Graceful);
    assert_eq!(graceful, Some(&Verdict::Pass));
}

#[test]
fn a_cancelled_launch_that_goes_on() {
    let matrix = run_on(
        Fault::LosesCancelledLaunch,
        &["plain", "ignore-eof"],
        &[Way::Cancelled],
    );
    assert_red(&matrix, "plain x cancelled", "dropped after poll");
    assert_red(&matrix, "ignore-eof x cancelled", "still alive");
}

#[test]
fn a_signal_that_is_declared_and_not_sent() {
    let matrix = run_on(Fault::SignalsNot, &[], &[]);
    assert_red(&matrix, "the polite signal arrives", "sigterm");
}

#[test]
fn an_exit_status_that_is_made_up() {
    let matrix = run_on(Fault::GuessesExit, &[], &[]);
    let experiment = "the exit status is true, for many waiters and late ones";
    assert_red(&matrix, experiment, "it exited with 42");
}

#[test]
fn survivors_that_nobody_names() {
    let matrix = run_on(Fault::NamesNobody, &[], &[]);
    let experiment = "survivors names the living, and nobody after the end";
    assert_red(&matrix, experiment, "not named");
}
