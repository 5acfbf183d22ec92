//! One cell: in the process that runs it, and as the process that the run starts.
//!
//! The census counts a whole process, a launcher may keep state in it, and what hangs or
//! aborts takes it along. So each cell has one of its own.

use std::io::{self, Read, Seek};
use std::process::{self, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{env, thread};

use crate::deadline::Watchdog;
use crate::experiments::{self, Experiment};
use crate::fixture::Fixture;
use crate::kit::{Kit, SEED};
use crate::stage::Subject;
use crate::verdict::Verdict;
use crate::ways::{self, Way};

/// Tells a process which cell of which kit it is.
const CELL: &str = "MCP_CONFORMANCE_CELL";
const KIT: &str = "MCP_CONFORMANCE_KIT";

/// One thing to try.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell {
    /// On what is declared, and what the contract says.
    Experiment(&'static Experiment),
    /// A fixture that misbehaves, and a way to end.
    Matrix(Fixture, Way),
}

impl Cell {
    /// All cells: experiments first, which are quick and say most.
    pub(crate) fn all() -> Vec<Self> {
        let experiments = experiments::ALL.iter().map(Self::Experiment);
        let rows = Fixture::all().iter();
        let matrix = rows.flat_map(|row| Way::ALL.iter().map(|way| Self::Matrix(*row, *way)));
        experiments.chain(matrix).collect()
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Experiment(experiment) => experiment.name.to_owned(),
            Self::Matrix(fixture, way) => format!("{} x {way}", fixture.name()),
        }
    }
}

/// The kit and the cell of this process, if it is one.
pub(crate) fn of_this_process() -> Option<(String, String)> {
    Some((env::var(KIT).ok()?, env::var(CELL).ok()?))
}

/// A command that starts this very program again.
pub(crate) fn this_program() -> Command {
    Command::new(env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into()))
}

/// Starts the process of a cell, and waits for its verdict.
pub(crate) fn start(mut command: Command, kit: &Kit, cell: Cell) -> Verdict {
    let crashed = |why: String| Verdict::failed("a cell ends with a verdict", why);
    let mut run = || {
        // A file and no pipe: what the cell has lost may hold its output for ever.
        let mut output = tempfile::tempfile()?;
        command
            .env(KIT, &kit.name)
            .env(CELL, cell.name())
            .env(SEED, kit.seed.to_string())
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?);
        let mut child = command.spawn()?;
        // Open until it has exited, so that it does not outlive this process.
        let _open = child.stdin.take();
        let status = child.wait()?;
        let mut text = Vec::new();
        output.rewind()?;
        output.read_to_end(&mut text)?;
        io::Result::Ok((status, String::from_utf8_lossy(&text).into_owned()))
    };
    match run() {
        Ok((status, output)) => Verdict::told_in(&output)
            .unwrap_or_else(|| crashed(format!("its process has ended ({status}):\n{output}"))),
        Err(error) => crashed(format!("its process was not started: {error}")),
    }
}

/// Runs the cell of this process, and tells the verdict.
pub(crate) fn run(kits: &[Kit], kit: &str, cell: &str) -> ExitCode {
    thread::spawn(|| {
        // The end of the run is the end of its cells.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        process::exit(1)
    });
    let kit = kits.iter().find(|known| known.name == kit);
    let wanted = Cell::all().into_iter().find(|known| known.name() == cell);
    let verdict = match kit.zip(wanted) {
        Some((kit, cell)) => perform(kit, cell),
        None => Verdict::failed("a cell ends with a verdict", "there is no such cell"),
    };
    println!("{}", verdict.line());
    ExitCode::SUCCESS
}

fn perform(kit: &Kit, cell: Cell) -> Verdict {
    // Longer than any sequence of waits within: each of those has its limit.
    let _watchdog = Watchdog::arm(&cell.name(), kit.limit * 12 + Duration::from_secs(60));
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return Verdict::failed("a runtime", error.to_string()),
    };
    let result = runtime.block_on(async {
        let subject = Arc::new(Subject::new(kit).await);
        match cell {
            Cell::Experiment(experiment) => experiments::perform(subject, experiment).await,
            Cell::Matrix(fixture, way) => ways::perform(subject, fixture, way).await,
        }
    });
    runtime.shutdown_background();
    result.map_or_else(|failure| failure.verdict(), |()| Verdict::Passed)
}

/// Threads that Tokio lends for blocking work end soon after it: a server that ends
/// with the thread that has started it does so while it is looked at.
pub(crate) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_keep_alive(Duration::from_millis(100))
        .enable_all()
        .build()
}
