//! The kit: what to test, and the run of it.

use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mcp_lifecycle_core::launch::{Containment, Reach, ServerLauncher};

use crate::census::Census;
use crate::deadline::Watchdog;
use crate::fixture::Fixture;
use crate::host::HostCommand;
use crate::matrix::{Matrix, Verdict};
use crate::stage::Stage;
use crate::ways::Way;
use crate::{FixtureCommand, declared};

/// Sets the seed of the random instants.
const SEED: &str = "MCP_CONFORMANCE_SEED";

/// Sets how often hosts are killed at random instants: more, for a soak.
const ROUNDS: &str = "MCP_CONFORMANCE_ROUNDS";

/// Prints each verdict as it comes.
const PROGRESS: &str = "MCP_CONFORMANCE_PROGRESS";

/// A launcher, and how to test it.
#[derive(Debug, Clone)]
pub struct Conformance {
    pub(crate) launcher: Arc<dyn ServerLauncher>,
    pub(crate) fixture: FixtureCommand,
    pub(crate) host: Option<HostCommand>,
    pub(crate) limit: Duration,
    pub(crate) rounds: u32,
    pub(crate) seed: u64,
    fixtures: Vec<Fixture>,
    ways: Vec<Way>,
    experiments: bool,
}

impl Conformance {
    /// Tests `launcher` with a fixture that it runs by this command.
    ///
    /// What must hold is what the launcher's
    /// [`semantics`](ServerLauncher::semantics) declare.
    pub fn new(launcher: Arc<dyn ServerLauncher>, fixture: FixtureCommand) -> Self {
        Self {
            launcher,
            fixture,
            host: None,
            limit: Duration::from_secs(10),
            rounds: number_in(ROUNDS).unwrap_or(20),
            seed: number_in(SEED).unwrap_or_else(seed),
            fixtures: Fixture::all().to_vec(),
            ways: Way::ALL.to_vec(),
            experiments: true,
        }
    }

    /// Also kills hosts, which are started by this command. Without it those
    /// columns are empty.
    #[must_use]
    pub fn host(mut self, host: HostCommand) -> Self {
        self.host = Some(host);
        self
    }

    /// Sets how long anything may take that should take no time. 10 s by
    /// default; only a failure takes so long.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets how often a host is killed at a random instant, per fixture. 20 by
    /// default, or what the environment variable `MCP_CONFORMANCE_ROUNDS` says.
    #[must_use]
    pub fn rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// Tests these fixtures only.
    ///
    /// # Panics
    ///
    /// When there is no fixture of one of these names.
    #[must_use]
    pub fn fixtures<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let find = |name| Fixture::named(name).unwrap_or_else(|| panic!("no fixture {name:?}"));
        self.fixtures = names.into_iter().map(find).collect();
        self
    }

    /// Tests these ways to end only.
    #[must_use]
    pub fn ways(mut self, ways: impl IntoIterator<Item = Way>) -> Self {
        self.ways = ways.into_iter().collect();
        self
    }

    /// Leaves out the experiments on what is declared: the matrix only.
    #[must_use]
    pub fn without_experiments(mut self) -> Self {
        self.experiments = false;
        self
    }
}

/// Runs the kit, one cell after another, and returns the matrix.
///
/// Run it alone in its process: the census counts all of it.
///
/// # Panics
///
/// Outside a Tokio runtime with time and I/O enabled.
pub async fn run(kit: &Conformance) -> Matrix {
    let begun = Instant::now();
    // What a launcher sets up once (a thread, a connection) is not a leak; and
    // what it declares may be known by its first launch only.
    let warm_up = perform(kit, Fixture::plain(), Way::WarmUp).await;
    let mut matrix = Matrix::new(kit.launcher.name(), kit.launcher.semantics());
    matrix.seed = kit.seed;
    matrix.columns.clone_from(&kit.ways);
    matrix
        .declared
        .push(("launches and ends a plain server", warm_up));
    // What is still being closed of it would be missed later.
    wait_for_rest(kit.limit).await;

    for fixture in &kit.fixtures {
        let mut row = Vec::new();
        for way in &kit.ways {
            row.push(cell(kit, *fixture, *way).await);
        }
        matrix.rows.push((fixture.name(), row));
    }
    let experiments = if kit.experiments { declared::ALL } else { &[] };
    for experiment in experiments {
        let verdict = watched(kit, experiment.name, declared::perform(kit, experiment)).await;
        matrix.declared.push((experiment.name, verdict));
    }
    matrix.took = begun.elapsed();
    matrix
}

/// One cell, if it applies and the launcher declares to reach so far.
async fn cell(kit: &Conformance, fixture: Fixture, way: Way) -> Verdict {
    if !way.applies_to(&fixture) || (way.kills_the_host() && kit.host.is_none()) {
        return Verdict::NotApplicable;
    }
    if !reaches(&kit.launcher.semantics().containment, &fixture, way) {
        return Verdict::Beyond;
    }
    perform(kit, fixture, way).await
}

/// Whether what is declared covers this cell.
fn reaches(declared: &Containment, fixture: &Fixture, way: Way) -> bool {
    let reach = match way {
        Way::HostKilled => declared.on_host_death,
        Way::Spawning if declared.placement_is_atomic => declared.on_host_death,
        Way::Spawning => Reach::Nothing,
        _ => declared.on_terminate,
    };
    reach >= fixture.needs()
}

/// Returns when this process has held on to the same things for a while, which
/// is all that can be known of a launcher whose workings nobody knows.
async fn wait_for_rest(limit: Duration) {
    const A_WHILE: Duration = Duration::from_millis(500);
    let deadline = Instant::now() + limit;
    let mut before = Census::take();
    while Instant::now() < deadline {
        tokio::time::sleep(A_WHILE).await;
        let now = Census::take();
        if before.difference(&now).is_none() {
            return;
        }
        before = now;
    }
}

async fn perform(kit: &Conformance, fixture: Fixture, way: Way) -> Verdict {
    let name = format!("{} x {way}", fixture.name());
    let experiment = async {
        let stage = Arc::new(Stage::open(kit, fixture)?);
        // Judged either way: what a failed experiment leaves is worth knowing.
        let result = way.perform(&stage).await;
        let left = match way {
            Way::WarmUp => stage.all_dead().await,
            _ => stage.close().await,
        };
        result.and(left)
    };
    let verdict = watched(kit, &name, experiment).await;
    if matches!(verdict, Verdict::Failed(_)) {
        // What it has left is being closed, or stays: not the next one's fault.
        wait_for_rest(kit.limit).await;
    }
    verdict
}

/// Runs an experiment that aborts the process when it hangs.
async fn watched(
    kit: &Conformance,
    name: &str,
    experiment: impl Future<Output = crate::failure::Check>,
) -> Verdict {
    // Longer than any sequence of waits within: each of those has its limit.
    let _watchdog = Watchdog::arm(name, kit.limit * 12 + Duration::from_secs(60));
    let begun = Instant::now();
    let verdict = match experiment.await {
        Ok(()) => Verdict::Pass,
        Err(failure) => Verdict::Failed(failure.to_string()),
    };
    if std::env::var_os(PROGRESS).is_some() {
        eprintln!("{verdict:8} {:8.1?} {name}", begun.elapsed());
        if let Verdict::Failed(why) = &verdict {
            eprintln!("         {why}");
        }
    }
    verdict
}

fn number_in<T: FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Another one in each run; it is printed with the matrix.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |now| u64::from(now.subsec_nanos()))
}
