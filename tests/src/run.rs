//! The run of all cells, as tests that `cargo test` and its kin can list and choose.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;
use std::{env, fs, thread};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::cell::{self, Cell};
use crate::fixture::Fixture;
use crate::kit::{Kit, Start};
use crate::verdict::Verdict;
use crate::ways::Way;

/// Names a file that gets a line for each cell: the kit, the verdict and its reason, with tabs between.
const SUMMARY: &str = "MCP_CONFORMANCE_SUMMARY";

/// So many cells that break the same sentence are enough.
const REPEATED: usize = 3;

/// One kit while it is run.
struct Run {
    kit: Kit,
    begun: Instant,
    start: OnceLock<Result<Start, Verdict>>,
    verdicts: Mutex<Vec<(Cell, Verdict)>>,
}

/// Runs all cells that this program's command line asks for.
pub(crate) fn all(kits: Vec<Kit>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // A cell waits most of its time.
    let threads = thread::available_parallelism().map_or(4, |cores| 2 * cores.get());
    arguments.test_threads.get_or_insert(threads);
    let runs: Vec<_> = kits
        .into_iter()
        .map(|kit| Arc::new(Run::new(kit)))
        .collect();
    let trials = runs.iter().flat_map(Run::trials).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        for run in &runs {
            run.report();
        }
    }
    conclusion.exit_code()
}

impl Run {
    fn new(kit: Kit) -> Self {
        Self {
            kit,
            begun: Instant::now(),
            start: OnceLock::new(),
            verdicts: Mutex::default(),
        }
    }

    fn trials(self: &Arc<Self>) -> impl Iterator<Item = Trial> {
        let run = Arc::clone(self);
        Cell::all().into_iter().map(move |cell| {
            let (name, run) = (
                format!("{}: {}", run.kit.name, cell.name()),
                Arc::clone(&run),
            );
            Trial::ignorable_test(name, move || run.run(cell))
        })
    }

    fn run(&self, cell: Cell) -> Result<Completion, Failed> {
        let verdict = self.perform(cell);
        self.verdicts().push((cell, verdict.clone()));
        match verdict {
            Verdict::Passed => Ok(Completion::Completed),
            Verdict::NotApplicable(why) => {
                Ok(Completion::ignored_with(format!("not applicable: {why}")))
            }
            Verdict::Skipped(why) => Ok(Completion::ignored_with(format!("skipped: {why}"))),
            Verdict::Failed { why, .. } => Err(why.into()),
        }
    }

    fn perform(&self, cell: Cell) -> Verdict {
        if let Some(reason) = self
            .kit
            .skipped(cell)
            .map(str::to_owned)
            .or_else(|| self.told(cell))
        {
            return Verdict::Skipped(reason);
        }
        match self.start.get_or_init(|| self.prepare()) {
            Ok(start) => cell::start(start(), &self.kit, cell),
            Err(verdict) => verdict.clone(),
        }
    }

    fn prepare(&self) -> Result<Start, Verdict> {
        match panic::catch_unwind(AssertUnwindSafe(&self.kit.prepare)) {
            Ok(prepared) => prepared.map_err(Verdict::Skipped),
            Err(_) => Err(Verdict::failed(
                "what cells need",
                "its preparation has panicked",
            )),
        }
    }

    /// The reason this cell would say nothing that is not known already.
    fn told(&self, cell: Cell) -> Option<String> {
        let mut broken = BTreeMap::<String, usize>::new();
        for (of, verdict) in &*self.verdicts() {
            if let Verdict::Failed { rule, .. } = verdict {
                if matches!((of, cell), (Cell::Experiment(_), Cell::Matrix(..))) {
                    return Some(format!("an experiment has failed: mend {rule:?} first"));
                }
                *broken.entry(rule.clone()).or_default() += 1;
            }
        }
        let (rule, count) = broken.into_iter().find(|(_, count)| *count >= REPEATED)?;
        Some(format!(
            "{count} cells have failed by {rule:?}: mend that first"
        ))
    }

    fn verdicts(&self) -> MutexGuard<'_, Vec<(Cell, Verdict)>> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints the table of what was run, and how much of it there was.
    fn report(&self) {
        let verdicts = self.verdicts();
        if verdicts.is_empty() {
            return;
        }
        println!("{}\n{}", self.table(&verdicts), self.summary(&verdicts));
        if let Some(path) = env::var_os(SUMMARY) {
            let file = fs::File::options().create(true).append(true).open(path);
            // One write: where each cell is a process of its own, they all append.
            let lines = self.lines(&verdicts);
            if let Err(error) = file.and_then(|mut file| file.write_all(lines.as_bytes())) {
                eprintln!("{SUMMARY}: {error}");
            }
        }
    }

    fn lines(&self, verdicts: &[(Cell, Verdict)]) -> String {
        let mut lines = String::new();
        for (_, verdict) in verdicts {
            let (word, why) = match verdict {
                Verdict::Passed => ("passed", ""),
                Verdict::Failed { .. } => ("failed", ""),
                Verdict::NotApplicable(_) => ("not applicable", ""),
                Verdict::Skipped(why) => ("skipped", why.as_str()),
            };
            let _ = writeln!(lines, "{}\t{word}\t{why}", self.kit.name);
        }
        lines
    }

    fn table(&self, verdicts: &[(Cell, Verdict)]) -> String {
        const NAME: usize = 20;
        let mut table = format!("{:NAME$}", "");
        for way in Way::ALL {
            let _ = write!(table, " {way:12}");
        }
        for row in Fixture::all() {
            let found = |way: Way| {
                let is_it = |cell: &Cell| matches!(cell, Cell::Matrix(of, by) if of.name() == row.name() && *by == way);
                verdicts.iter().find(|(cell, _)| is_it(cell))
            };
            let shown = |way: &Way| {
                found(*way).is_some_and(|(_, verdict)| !matches!(verdict, Verdict::Skipped(_)))
            };
            if Way::ALL.iter().any(shown) {
                let _ = write!(table, "\n{:NAME$}", row.name());
                for way in Way::ALL {
                    let word = found(*way).map(|(_, verdict)| verdict.to_string());
                    let _ = write!(table, " {:12}", word.unwrap_or_default());
                }
            }
        }
        for (cell, verdict) in verdicts {
            if let Cell::Experiment(experiment) = cell {
                let _ = write!(table, "\n{verdict:8} {}", experiment.name);
            }
        }
        table
    }

    fn summary(&self, verdicts: &[(Cell, Verdict)]) -> String {
        let (mut passed, mut failed, mut not_applicable) = (0, 0, 0);
        let mut skipped = BTreeMap::<&str, usize>::new();
        for (_, verdict) in verdicts {
            match verdict {
                Verdict::Passed => passed += 1,
                Verdict::Failed { .. } => failed += 1,
                Verdict::NotApplicable(_) => not_applicable += 1,
                Verdict::Skipped(why) => *skipped.entry(why).or_default() += 1,
            }
        }
        let mut summary = format!(
            "{:28} {passed:4} passed {failed:4} failed {not_applicable:4} not applicable {:4} skipped",
            self.kit.name,
            skipped.values().sum::<usize>(),
        );
        for (why, count) in skipped {
            let _ = write!(summary, " ({count}: {why})");
        }
        let _ = write!(
            summary,
            "; seed {}, {:.1?}",
            self.kit.seed,
            self.begun.elapsed()
        );
        summary
    }
}
