//! What each hot path costs, counted: `docs/counts.md`.
//!
//! ```text
//! tests/run counts [--write] [--names] [PATH...]
//! ```

mod alloc;
mod budget;
mod cases;
mod meter;
mod report;
mod take;
mod trace;

use std::path::Path;
use std::process::ExitCode;

use budget::Budgets;
use cases::{ALL, How};
use meter::{Meter, Part};
use report::Report;
use take::Stage;

/// So often a path is taken before it is said to cost more than on record, and for the record itself: the least counts.
const TAKES: usize = 5;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/counts.toml");

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["--inside", case, how, turns] => inside(case, how, turns.parse().unwrap()),
        _ => compare_all(&words),
    }
}

/// In a process of its own, which is that of a host.
fn inside(case: &str, how: &str, turns: usize) -> ExitCode {
    let how = match how {
        "plain" => How::Plain,
        _ => How::Usual,
    };
    // One thread that does it all, but for the launcher's own: who goes on first is the same each time.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut meter = Meter::new(turns);
    let held_by = runtime.block_on(cases::take(case, how, turns, &mut meter));
    let part = ALL.iter().find(|it| it.name == case);
    print!(
        "{}",
        meter.report(part.map_or(Part::Inside, |case| case.part))
    );
    println!("held-by {held_by}");
    ExitCode::SUCCESS
}

fn compare_all(words: &[&str]) -> ExitCode {
    let (options, names): (Vec<_>, Vec<_>) = words.iter().partition(|word| word.starts_with("--"));
    let known = |name: &&str| ALL.iter().any(|case| *case.name == **name);
    if !names.iter().all(known) || !options.iter().all(|it| ["--write", "--names"].contains(it)) {
        eprintln!("tests/run counts [--write] [--names] [PATH...], with these paths:");
        ALL.iter()
            .for_each(|case| eprintln!("  {:16} {}", case.name, case.what));
        return ExitCode::from(2);
    }
    let budgets = std::fs::read_to_string(FILE).unwrap_or_default();
    let mut budgets = match budgets.is_empty() {
        true => Budgets::default(),
        false => Budgets::read(&budgets).unwrap(),
    };
    let directory = tempfile::tempdir().unwrap();
    let stage = Stage {
        directory: directory.path(),
        is_root: is_root(),
    };
    let is_write = options.contains(&"--write");
    let mut report = Report::new(compiler(), processor());
    for case in ALL
        .iter()
        .filter(|case| names.is_empty() || names.contains(&case.name))
    {
        eprintln!("counting: {}", case.what);
        let mut taken = stage.take(case);
        // What comes in between adds to a count and never takes from it.
        for _ in 1..TAKES {
            if !is_write && report.is_within(case, &taken, &budgets, stage.is_root) {
                break;
            }
            eprintln!("  once more");
            taken = taken.least(stage.take(case));
        }
        report.add(case, taken, &budgets, stage.is_root);
    }
    print!("{}", report.table(options.contains(&"--names")));
    if is_write {
        report.record(&mut budgets);
        let order: Vec<_> = ALL.iter().map(|case| case.name).collect();
        std::fs::write(FILE, budgets.write(&order)).unwrap();
        println!("written: {FILE}");
        return ExitCode::SUCCESS;
    }
    match report.is_kept() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // Whoever owns it is who this process is.
    Path::new("/proc/self")
        .metadata()
        .is_ok_and(|own| own.uid() == 0)
}

const UNKNOWN: &str = "unknown";

/// The kind of processor: the C library has ways for each.
fn processor() -> String {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let mut fields = known.lines().filter_map(|line| line.split_once(':'));
        let found = fields.find(|(field, _)| field.trim() == name);
        found.map_or(UNKNOWN, |(_, value)| value.trim())
    };
    let [name, family, model] = ["model name", "cpu family", "model"].map(field);
    format!("{name}, family {family}, model {model}").replace('"', "")
}

fn compiler() -> String {
    let said = std::process::Command::new("rustc")
        .arg("--version")
        .output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    said.unwrap_or_else(|_| UNKNOWN.to_owned())
}
