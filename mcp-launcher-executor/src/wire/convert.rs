use mcp_lifecycle_core::launch::{Containment, Reach, Remnant};
use mcp_lifecycle_core::launch::{ErrorChain, ExitStatus, Gone, RemnantKind, StepError};

use crate::wire::protocol::extension::GoneNotification;
use crate::wire::protocol::extension::{WireContainment, WireRemnant};

pub fn remnant(wire: WireRemnant) -> Remnant {
    match wire.kind.as_str() {
        "container" => Remnant::container(wire.id, wire.name),
        _ => Remnant::remote_process(wire.id, wire.name),
    }
}

pub fn wire_remnant(remnant: &Remnant) -> WireRemnant {
    WireRemnant {
        kind: match remnant.kind {
            RemnantKind::Container => "container",
            _ => "process",
        }
        .to_owned(),
        id: remnant.id.clone(),
        name: remnant.name.clone(),
    }
}

/// An exit as a shell would say it: all that the protocol carries.
pub fn wire_code(exit: ExitStatus) -> i64 {
    match exit {
        ExitStatus::Code(code) => i64::from(code),
        ExitStatus::Signal(signal) => 128 + i64::from(signal),
        ExitStatus::OutOfMemory => 137,
        _ => -1,
    }
}

/// A proof, or why there is none, but for its number.
pub fn wire_proof(process_id: &str, proof: Result<Gone, StepError>) -> GoneNotification {
    let mut wire = GoneNotification {
        process_id: process_id.to_owned(),
        ..GoneNotification::default()
    };
    match proof {
        Ok(gone) => {
            wire.swept = gone.swept.iter().take(64).map(wire_remnant).collect();
            wire.swept_count = gone.swept_count as u64;
            wire.evidence = gone.evidence.iter().map(ToString::to_string).collect();
        }
        Err(error) => wire.failure = Some(ErrorChain(&error).to_string()),
    }
    wire
}

pub fn containment(wire: &WireContainment) -> Containment {
    let (mechanism, reach) = (
        format!("executor: {}", wire.mechanism),
        reach(&wire.on_terminate),
    );
    // The lease ends what a vanished client leaves, and it ends the whole tree.
    let mut containment = Containment::new(mechanism, reach).host_death(reach);
    if wire.atomic {
        containment = containment.atomic_placement();
    }
    match &wire.fallback {
        Some(why) => containment.fallback(why.clone()),
        None => containment,
    }
}

pub fn wire_containment(containment: &Containment) -> WireContainment {
    WireContainment {
        mechanism: containment.mechanism.to_string(),
        on_terminate: wire_reach(containment.on_terminate).to_owned(),
        atomic: containment.placement_is_atomic,
        fallback: containment.fallback.as_ref().map(ToString::to_string),
    }
}

/// The wire has no word for marks; it is a group at the least.
const REACHES: [(&str, Reach); 4] = [
    ("container", Reach::Container),
    ("tree", Reach::Tree),
    ("group", Reach::Group),
    ("process", Reach::Process),
];

fn reach(wire: &str) -> Reach {
    let named = REACHES.iter().find(|(word, _)| *word == wire);
    named.map_or(Reach::Nothing, |(_, reach)| *reach)
}

fn wire_reach(reach: Reach) -> &'static str {
    let least = REACHES.iter().find(|(_, known)| *known <= reach);
    least.map_or("nothing", |(word, _)| word)
}
