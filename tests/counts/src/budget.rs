//! The checked-in numbers, and what is beyond them. Pure.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

/// What is counted, in the order of the table.
pub(crate) const KINDS: [&str; 5] = ["allocations", "bytes", "calls", "helpers", "instructions"];

/// How much more than on record is a failure, in percent.
const TOLERANCE: u64 = 3;

/// The counts of one path, by their kind.
pub(crate) type Counts = BTreeMap<String, u64>;

/// A path on record.
#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq)]
pub(crate) struct Path {
    /// What holds its servers, where that depends on the machine.
    #[serde(default)]
    pub(crate) held_by: String,
    #[serde(flatten)]
    pub(crate) counts: Counts,
}

/// The file.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
pub(crate) struct Budgets {
    /// The compiler that made the instructions.
    pub(crate) compiler: String,
    /// The processor that they were counted on: valgrind passes on what it can do, and the C library chooses by that.
    pub(crate) processor: String,
    pub(crate) path: BTreeMap<String, Path>,
}

impl Budgets {
    pub(crate) fn read(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The text of the file, with the paths in this order.
    pub(crate) fn write(&self, order: &[&str]) -> String {
        let mut text = String::from(
            "# What each hot path costs: made by `tests/run counts --write`, read like code. docs/counts.md says what\n\
             # the numbers are.\n",
        );
        let _ = writeln!(text, "compiler = \"{}\"", self.compiler);
        let _ = writeln!(text, "processor = \"{}\"", self.processor);
        for name in order {
            let Some(path) = self.path.get(*name) else {
                continue;
            };
            let _ = writeln!(text, "\n[path.{name}]");
            if !path.held_by.is_empty() {
                let _ = writeln!(text, "held_by = \"{}\"", path.held_by);
            }
            for kind in KINDS {
                if let Some(count) = path.counts.get(kind) {
                    let _ = writeln!(text, "{kind} = {count}");
                }
            }
        }
        text
    }
}

/// What has made the instructions of this run, and has carried them out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Maker<'a> {
    pub(crate) compiler: &'a str,
    pub(crate) processor: &'a str,
}

/// How a count compares with the one on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Within the tolerance.
    Kept,
    /// Less than on record.
    Better(u64),
    /// More than on record: the failure.
    Worse(u64),
    /// There is nothing on record.
    New,
    /// The record is of another machine, or another compiler.
    NotCompared(String),
}

/// Compares one count with its record.
pub(crate) fn compare(
    kind: &str,
    count: u64,
    here: &Path,
    maker: Maker<'_>,
    budgets: &Budgets,
    name: &str,
) -> Verdict {
    let Some(record) = budgets.path.get(name) else {
        return Verdict::New;
    };
    let Some(&on_record) = record.counts.get(kind) else {
        return Verdict::New;
    };
    if record.held_by != here.held_by {
        let [there, here] = [&record.held_by, &here.held_by];
        return Verdict::NotCompared(format!("on record with {there}, here with {here}"));
    }
    if kind == "instructions" {
        let of = [
            (&budgets.compiler, maker.compiler),
            (&budgets.processor, maker.processor),
        ];
        if let Some((there, _)) = of.iter().find(|(there, here)| there != here) {
            return Verdict::NotCompared(format!("on record with {there}"));
        }
    }
    let is_beyond = count.abs_diff(on_record) * 100 > on_record * TOLERANCE;
    match count.cmp(&on_record) {
        Ordering::Greater if is_beyond => Verdict::Worse(on_record),
        Ordering::Less if is_beyond => Verdict::Better(on_record),
        _ => Verdict::Kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budgets() -> Budgets {
        let text = "compiler = \"rustc 1\"\nprocessor = \"a\"\n[path.call]\nallocations = 100\ncalls = 0\ninstructions = 1000\n\
                    [path.end]\nheld_by = \"guardian\"\ncalls = 50\n";
        Budgets::read(text).unwrap()
    }

    fn maker(compiler: &'static str, processor: &'static str) -> Maker<'static> {
        Maker {
            compiler,
            processor,
        }
    }

    fn verdict(name: &str, kind: &str, count: u64) -> Verdict {
        let held_by = budgets().path.get(name).map(|it| it.held_by.clone());
        let here = Path {
            held_by: held_by.unwrap_or_default(),
            ..Path::default()
        };
        compare(kind, count, &here, maker("rustc 1", "a"), &budgets(), name)
    }

    #[test]
    fn more_than_three_percent_is_beyond() {
        assert_eq!(verdict("call", "allocations", 103), Verdict::Kept);
        assert_eq!(verdict("call", "allocations", 104), Verdict::Worse(100));
        assert_eq!(verdict("call", "allocations", 97), Verdict::Kept);
        assert_eq!(verdict("call", "allocations", 96), Verdict::Better(100));
        assert_eq!(verdict("call", "calls", 1), Verdict::Worse(0));
        assert_eq!(verdict("call", "bytes", 1), Verdict::New);
        assert_eq!(verdict("lease", "bytes", 1), Verdict::New);
    }

    #[test]
    fn what_another_machine_counts_is_not_compared() {
        let here = Path::default();
        let same = maker("rustc 1", "a");
        let compared = compare("calls", 900, &here, same, &budgets(), "end");
        assert!(matches!(compared, Verdict::NotCompared(_)), "{compared:?}");
        for other in [maker("rustc 2", "a"), maker("rustc 1", "b")] {
            let compared = compare("instructions", 9000, &here, other, &budgets(), "call");
            assert!(matches!(compared, Verdict::NotCompared(_)), "{compared:?}");
        }
        let compared = compare("instructions", 9000, &here, same, &budgets(), "call");
        assert_eq!(compared, Verdict::Worse(1000));
        let other = maker("rustc 2", "a");
        let compared = compare("allocations", 900, &here, other, &budgets(), "call");
        assert_eq!(compared, Verdict::Worse(100));
    }

    #[test]
    fn what_is_written_is_read() {
        let budgets = budgets();
        let text = budgets.write(&["call", "end"]);
        assert_eq!(Budgets::read(&text).unwrap(), budgets);
    }
}
