//! Converts what `mcp-guardian` finds into the types of core.

use mcp_lifecycle_core::launch::{ReapReport, Remnant, UnknownRemnant};
use mcp_tree::orphans::report;

fn remnant(found: &report::Remnant) -> Remnant {
    match found {
        report::Remnant::Process { pid, name } => Remnant::process(*pid, name),
        report::Remnant::Record { id, name } => Remnant::record(id, name),
    }
}

/// Converts what could not be examined.
pub fn unknown(found: &report::Unknown) -> UnknownRemnant {
    UnknownRemnant::new(remnant(&found.what), &found.why)
}

pub(crate) fn report(found: &report::ReapReport) -> ReapReport {
    let remnants = |found: &[report::Remnant]| found.iter().map(remnant).collect();
    let mut report = ReapReport::new();
    report.ended = remnants(&found.ended);
    report.failed = remnants(&found.failed);
    report.spared = remnants(&found.spared);
    report.unknown = found.unknown.iter().map(unknown).collect();
    report
}
