//! The description of a test: the launcher, and how it is tested.

use std::fmt;
use std::pin::Pin;
use std::process::{Command, ExitCode};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_lifecycle_core::launch::ServerLauncher;

use crate::cell::{self, Cell};
use crate::fixture::Fixture;
use crate::ways::Way;
use crate::{FixtureCommand, host, program, run};

/// Sets the seed of the random instants.
pub(crate) const SEED: &str = "MCP_CONFORMANCE_SEED";

/// Sets how often hosts are killed at random instants: more, for a soak.
const ROUNDS: &str = "MCP_CONFORMANCE_ROUNDS";

type Launcher = Pin<Box<dyn Future<Output = Arc<dyn ServerLauncher>>>>;

/// Makes the command of a cell's process.
pub(crate) type Start = Box<dyn Fn() -> Command + Send + Sync>;

/// A launcher, and how to test it.
///
/// It is the `main` of a test without a harness (`harness = false`): see the
/// [crate's page](crate).
pub struct Kit {
    pub(crate) name: String,
    pub(crate) launcher: Box<dyn Fn() -> Launcher + Send + Sync>,
    pub(crate) fixture: FixtureCommand,
    pub(crate) limit: Duration,
    pub(crate) rounds: u32,
    pub(crate) seed: u64,
    pub(crate) attaches_late: bool,
    pub(crate) loses_exits: Option<String>,
    pub(crate) prepare: Box<dyn Fn() -> Result<Start, String> + Send + Sync>,
    skips: Vec<Skip>,
}

struct Skip {
    cells: Box<dyn Fn(Fixture, Way) -> bool + Send + Sync>,
    reason: String,
}

impl Kit {
    /// Tests the launcher that the closure makes, under the name `name`.
    ///
    /// The closure is called in each process that launches servers, inside of its Tokio
    /// runtime. What must hold is what the launcher's
    /// [`semantics`](ServerLauncher::semantics) declare.
    pub fn new<L, F>(
        name: impl Into<String>,
        launcher: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        L: ServerLauncher,
        F: Future<Output = L> + 'static,
    {
        let made = move || -> Launcher {
            let making = launcher();
            Box::pin(async move { Arc::new(making.await) as Arc<dyn ServerLauncher> })
        };
        Self {
            name: name.into(),
            launcher: Box::new(made),
            fixture: FixtureCommand::this_program(),
            limit: Duration::from_secs(10),
            rounds: number_in(ROUNDS).unwrap_or(20),
            seed: number_in(SEED).unwrap_or_else(seed),
            attaches_late: false,
            loses_exits: None,
            prepare: Box::new(|| Ok(Box::new(cell::this_program))),
            skips: Vec::new(),
        }
    }

    /// Sets how the launcher runs the fixture, where it cannot run this very program.
    #[must_use]
    pub fn fixture(mut self, fixture: FixtureCommand) -> Self {
        self.fixture = fixture;
        self
    }

    /// Sets how long anything may take that should take no time. 10 s by default; only
    /// a failure takes so long.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets how often a host is killed in the middle of its launches, per fixture. 20 by
    /// default; the environment variable `MCP_CONFORMANCE_ROUNDS` has the last word.
    #[must_use]
    pub fn rounds(mut self, rounds: u32) -> Self {
        self.rounds = number_in(ROUNDS).unwrap_or(rounds);
        self
    }

    /// Declares that a server may start before its streams are attached: what it writes
    /// first may be lost, and is not waited for.
    #[must_use]
    pub fn attaches_late(mut self) -> Self {
        self.attaches_late = true;
        self
    }

    /// Declares that the exit status of a server that was asked to end may be unknown where the
    /// evidence of its proof has these `words`. A wrong one is a failure all the same, and so is an
    /// unknown one on other evidence, or where a server leaves by itself.
    #[must_use]
    pub fn loses_exits(mut self, words: impl Into<String>) -> Self {
        self.loses_exits = Some(words.into());
        self
    }

    /// Skips these cells, which are counted and reported with the reason, and the experiment on a host that is killed where
    /// its fixture is skipped for [`Way::HostKilled`].
    #[must_use]
    pub fn skip(
        mut self,
        reason: impl Into<String>,
        cells: impl Fn(Fixture, Way) -> bool + Send + Sync + 'static,
    ) -> Self {
        let (cells, reason) = (Box::new(cells), reason.into());
        self.skips.push(Skip { cells, reason });
        self
    }

    /// Prepares what all cells need, once and only if one is run, and says how their
    /// processes are started: this program ([`std::env::current_exe`]) in another
    /// environment, or as another user. What the command's closure owns, such as a
    /// daemon, is dropped after the last cell.
    ///
    /// An error skips all cells, and is the reason. A panic fails them.
    #[must_use]
    pub fn processes<S>(
        mut self,
        prepare: impl Fn() -> Result<S, String> + Send + Sync + 'static,
    ) -> Self
    where
        S: Fn() -> Command + Send + Sync + 'static,
    {
        self.prepare = Box::new(move || Ok(Box::new(prepare()?) as Start));
        self
    }

    /// Runs the kit: [`main`] with this one alone.
    pub fn main(self) -> ExitCode {
        main([self])
    }

    /// The reason this cell is not to be run, if it is not.
    pub(crate) fn skipped(&self, cell: Cell) -> Option<&str> {
        let (fixture, way) = match cell {
            Cell::Matrix(fixture, way) => (fixture, way),
            Cell::Experiment(experiment) => experiment.like()?,
        };
        let skip = self.skips.iter().find(|skip| (skip.cells)(fixture, way))?;
        Some(&skip.reason)
    }
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kit")
            .field("name", &self.name)
            .field("fixture", &self.fixture)
            .finish_non_exhaustive()
    }
}

/// Runs kits, each cell in a process of its own, as this program's command line says:
/// it takes the options of `cargo test` (a part of a cell's name, `--list`, ...).
///
/// To be called first of all in `main`: the same program is started again as the
/// process of each cell, as the hosts that are killed, and as the observed servers.
pub fn main(kits: impl IntoIterator<Item = Kit>) -> ExitCode {
    // Servers first: one that inherits an environment by mistake is no cell.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == program::INSIDE)
    {
        program::fixture_main();
    }
    let kits: Vec<Kit> = kits.into_iter().collect();
    if let Some(job) = host::Job::of_this_process() {
        return job.run(&kits);
    }
    match cell::of_this_process() {
        Some((kit, cell)) => cell::run(&kits, &kit, &cell),
        None => run::all(kits),
    }
}

fn number_in<T: FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Another one in each run; it is printed with the table.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |now| u64::from(now.subsec_nanos()))
}
