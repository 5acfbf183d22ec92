use mcp_lifecycle_core::launch::{
    Containment, ErrorChain, ExitStatus, Gone, Reach, Remnant, RemnantKind, StepError,
};

use crate::wire::protocol::extension::{GoneNotification, WireContainment, WireRemnant};

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
    let mechanism = format!("executor: {}", wire.mechanism);
    let reach = reach(&wire.on_terminate);
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

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_lifecycle_core::launch::Evidence;

    #[test]
    fn remnants_keep_their_kind() {
        for (it, kind) in [
            (Remnant::container("c", "n"), "container"),
            (Remnant::remote_process("7", "n"), "process"),
        ] {
            let wire = wire_remnant(&it);
            assert_eq!(wire.kind, kind);
            assert_eq!(remnant(wire), it);
        }
    }

    #[test]
    fn exits_are_those_of_a_shell() {
        for (exit, code) in [
            (ExitStatus::Code(7), 7),
            (ExitStatus::Signal(15), 143),
            (ExitStatus::OutOfMemory, 137),
            (ExitStatus::Unknown, -1),
        ] {
            assert_eq!(wire_code(exit), code, "{exit:?}");
        }
    }

    #[test]
    fn a_proof_names_64_remnants_and_counts_all() {
        let swept = (0..70).map(|it| Remnant::remote_process(it.to_string(), "x"));
        let gone = Gone::proven_by(Evidence::Reaped).swept(swept);
        let wire = wire_proof("p", Ok(gone));
        assert_eq!((&*wire.process_id, wire.failure), ("p", None));
        assert_eq!((wire.swept.len(), wire.swept_count), (64, 70));
        assert_eq!(wire.evidence, ["every process was reaped"]);
        let wire = wire_proof("p", Err(StepError::new("look", "it is dark")));
        assert!(wire.evidence.is_empty() && wire.swept.is_empty());
        assert!(wire.failure.is_some_and(|it| it.contains("it is dark")));
    }

    #[test]
    fn containment_is_what_the_daemon_says_of_it() {
        let own = Containment::new("guardian", Reach::Tree);
        let told = own.clone().atomic_placement().fallback("no cgroup");
        for (own, is_atomic, fallback) in [(own, false, None), (told, true, Some("no cgroup"))] {
            let found = containment(&wire_containment(&own));
            assert_eq!(found.mechanism, "executor: guardian");
            let reaches = (found.on_terminate, found.on_host_death);
            assert_eq!(reaches, (Reach::Tree, Reach::Tree));
            assert_eq!(found.placement_is_atomic, is_atomic);
            assert_eq!(found.fallback.as_deref(), fallback);
        }
        for (own, found) in [
            (Reach::Container, Reach::Container),
            (Reach::Marked, Reach::Group),
            (Reach::Process, Reach::Process),
            (Reach::Nothing, Reach::Nothing),
        ] {
            assert_eq!(reach(wire_reach(own)), found, "{own}");
        }
        assert_eq!(reach("everything"), Reach::Nothing);
    }
}
