//! The table, and what follows from it. Pure.

use std::fmt::Write as _;

use crate::budget::{Budgets, KINDS, Maker, Path, Verdict, compare};
use crate::cases::Case;
use crate::take::Taken;

/// All that was counted.
#[derive(Debug)]
pub(crate) struct Report {
    compiler: String,
    processor: String,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    case: Case,
    taken: Taken,
    verdicts: Vec<(&'static str, u64, Verdict)>,
}

impl Report {
    pub(crate) fn new(compiler: String, processor: String) -> Self {
        Self {
            compiler,
            processor,
            rows: Vec::new(),
        }
    }

    /// Whether no count of a path is more than on record.
    pub(crate) fn is_within(
        &self,
        case: &Case,
        taken: &Taken,
        budgets: &Budgets,
        is_root: bool,
    ) -> bool {
        let verdicts = self.verdicts(case, taken, budgets, is_root);
        !verdicts
            .iter()
            .any(|(_, _, verdict)| matches!(verdict, Verdict::Worse(_)))
    }

    /// Takes a path, and compares it with its record, where that can be.
    pub(crate) fn add(&mut self, case: &Case, taken: Taken, budgets: &Budgets, is_root: bool) {
        let verdicts = self.verdicts(case, &taken, budgets, is_root);
        self.rows.push(Row {
            case: *case,
            taken,
            verdicts,
        });
    }

    fn verdicts(
        &self,
        case: &Case,
        taken: &Taken,
        budgets: &Budgets,
        is_root: bool,
    ) -> Vec<(&'static str, u64, Verdict)> {
        let here = Path {
            held_by: held_by(case, taken),
            counts: taken.counts.clone(),
        };
        let maker = Maker {
            compiler: &self.compiler,
            processor: &self.processor,
        };
        let verdict = |kind: &str, count| match is_root || !case.launches {
            true if !case.is_compared() => Verdict::Kept,
            true => compare(kind, count, &here, maker, budgets, case.name),
            false => Verdict::NotCompared("who is not root has another way".to_owned()),
        };
        let counted = KINDS
            .iter()
            .filter_map(|kind| Some((*kind, *taken.counts.get(*kind)?)));
        counted
            .map(|(kind, count)| (kind, count, verdict(kind, count)))
            .collect()
    }

    /// Whether nothing is worse than on record, and everything is on record.
    pub(crate) fn is_kept(&self) -> bool {
        let mut verdicts = self.rows.iter().flat_map(|row| &row.verdicts);
        verdicts.all(|(_, _, verdict)| !matches!(verdict, Verdict::Worse(_) | Verdict::New))
    }

    /// Replaces what is on record by what was counted.
    pub(crate) fn record(&self, budgets: &mut Budgets) {
        budgets.compiler.clone_from(&self.compiler);
        budgets.processor.clone_from(&self.processor);
        for row in &self.rows {
            let path = Path {
                held_by: held_by(&row.case, &row.taken),
                counts: row.taken.counts.clone(),
            };
            budgets.path.insert(row.case.name.to_owned(), path);
        }
    }

    pub(crate) fn table(&self, with_names: bool) -> String {
        let mut text = format!("\n{:15}", "");
        for kind in KINDS {
            let _ = write!(text, " {kind:>20}");
        }
        let _ = writeln!(text, " {:>9}", "(waits)");
        for row in &self.rows {
            let _ = write!(text, "{:15}", row.case.name);
            for kind in KINDS {
                let _ = write!(text, " {:>20}", self.cell(row, kind));
            }
            let waits = row
                .taken
                .waits
                .map_or_else(String::new, |(least, most)| format!("({least}-{most})"));
            let _ = writeln!(text, " {waits:>9}");
        }
        text.push_str("\nin brackets: the share of rmcp's; of waits, that they differ from run to run and are not compared\n");
        self.rows.iter().for_each(|row| row.notes(&mut text));
        if with_names {
            self.rows.iter().for_each(|row| row.names(&mut text));
        }
        text
    }

    fn cell(&self, row: &Row, kind: &str) -> String {
        let Some(count) = row.taken.counts.get(kind) else {
            return String::from("-");
        };
        let peer = self
            .rows
            .iter()
            .find(|it| Some(it.case.name) == row.case.peer);
        let theirs = peer.and_then(|peer| peer.taken.counts.get(kind));
        match theirs {
            Some(&theirs) if theirs > 0 => {
                format!("{count} ({:.2})", *count as f64 / theirs as f64)
            }
            _ => count.to_string(),
        }
    }
}

/// Recorded only where it depends on the machine.
fn held_by(case: &Case, taken: &Taken) -> String {
    match case.launches {
        true => taken.held_by.clone(),
        false => String::new(),
    }
}

impl Row {
    /// What is said beside the table.
    fn notes(&self, text: &mut String) {
        let name = self.case.name;
        for (kind, count, verdict) in &self.verdicts {
            let _ = match verdict {
                Verdict::Kept => Ok(()),
                Verdict::Better(record) => writeln!(
                    text,
                    "better: {name}: {kind} {count}, on record {record}: tests/run counts --write"
                ),
                Verdict::Worse(record) => {
                    writeln!(text, "FAILED: {name}: {kind} {count}, on record {record}")
                }
                Verdict::New => writeln!(
                    text,
                    "FAILED: {name}: {kind} {count} is not on record: tests/run counts --write"
                ),
                Verdict::NotCompared(why) => writeln!(text, "NOT COMPARED: {name}: {kind}: {why}"),
            };
        }
        for (kind, (least, most)) in &self.taken.spread {
            let _ = writeln!(text, "spread: {name}: {kind}: turns with {least} to {most}");
        }
    }

    /// Each system call.
    fn names(&self, text: &mut String) {
        let mut names: Vec<_> = self.taken.names.iter().collect();
        names.sort_by_key(|(_, (host, helpers))| std::cmp::Reverse(host + helpers));
        let _ = writeln!(
            text,
            "\n{}: system calls from the first turn to the last, of the host and of its helpers",
            self.case.name
        );
        for (name, (host, helpers)) in names {
            let _ = writeln!(text, "  {name:20} {host:>8} {helpers:>8}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cases::ALL;

    #[test]
    fn what_is_not_on_record_or_more_than_it_fails() {
        let case = &ALL[0];
        let taken = |count| Taken {
            counts: BTreeMap::from([("allocations".to_owned(), count)]),
            ..Taken::default()
        };
        let mut budgets = Budgets::default();
        let mut report = Report::new("rustc".to_owned(), "cpu".to_owned());
        report.add(case, taken(50), &budgets, true);
        assert!(!report.is_kept());
        report.record(&mut budgets);
        let kept = |count| {
            let mut report = Report::new("rustc".to_owned(), "cpu".to_owned());
            let is_within = report.is_within(case, &taken(count), &budgets, true);
            report.add(case, taken(count), &budgets, true);
            assert_eq!(report.is_kept(), is_within);
            is_within
        };
        assert!(kept(50) && kept(40) && !kept(52));
    }
}
