//! The model test of guardian, host and reaper: random interleavings, in a
//! world without clocks and processes, of what they decide by.
//!
//! The decisions are the real ones, of the guardian (`course`), of a host whose
//! guardian has gone (`decide`), and of the next host (`verdict`, `settle`);
//! the world around them does what the edges do: it kills, reaps, looks. Three
//! things are checked at every step:
//!
//! * **never a wrong proof**: nothing of a server lives when its end is proven,
//! * **never a stranger**: whoever is killed was a server's,
//! * **never forgotten**: whoever lives on is on record, or out of everybody's
//!   sight in a way that `docs/orphans.md` names.
//!
//! A decision can be replaced by a wrong one, which has to be noticed.

#[path = "../../guardian/adopted.rs"]
#[expect(clippy::duplicate_mod, reason = "it is private where it is used")]
mod adopted;
#[path = "../../../guardian-bin/course.rs"]
#[expect(
    dead_code,
    clippy::manual_unwrap_or_default,
    reason = "the guardian uses the rest, and links no library"
)]
mod course;
#[path = "../../guardian/decide.rs"]
#[expect(clippy::duplicate_mod, reason = "it is private where it is used")]
mod decide;
mod faults;
mod guardian;
mod host;
#[path = "../../../../tests/src/random.rs"]
#[expect(dead_code, unreachable_pub, reason = "the kit uses the rest")]
mod random;
mod reaper;
mod rest;
mod world;

use std::borrow::Cow;

use mcp_lifecycle_core::launch::Evidence as Proof;

use self::adopted::Whose;
use self::decide::{Adopted, Cgroup, Findings};
use self::random::Random;
use self::world::World;
use super::census::is_out_of_reach;
use super::settle::{Evidence, LeafState, Looked, Settlement, settle};
use super::verdict::{Emptying, Hosts, Process, Scene, Verdict};
use crate::identity::{Cookie, HostId};

/// What is decided, so that a wrong decision can be put in its place.
#[derive(Debug, Clone, Copy)]
struct Decisions {
    /// By the guardian: so many children are left.
    nobody_is_left: fn(usize) -> bool,
    /// By the host, of a server whose guardian has reaped everybody.
    concluded: fn(&Cgroup) -> Result<Vec<Proof>, Cow<'static, str>>,
    /// By the host, of one in another PID namespace, once the guardian has reaped
    /// everybody: its parent is here.
    is_out_of_reach: fn(bool) -> bool,
    /// By the host, of a server whose guardian has gone without a word.
    verdict: fn(&Findings) -> Result<Vec<Proof>, Cow<'static, str>>,
    /// By the host, of one who was adopted since the server was started.
    may_be: fn(&Whose, &Cookie, u64) -> bool,
    /// By the host: whether a guardian that is held may be ended.
    may_replace: fn(bool, bool) -> bool,
    /// By the next host.
    judge: fn(&Hosts<'_>, &Process, &Scene) -> Verdict,
    empty: fn(&Hosts<'_>, &HostId, &[u32], &Scene) -> Emptying,
    settle: fn(&Evidence) -> Settlement,
}

const REAL: Decisions = Decisions {
    nobody_is_left: |children| children == 0,
    concluded: decide::concluded,
    is_out_of_reach,
    verdict: Findings::verdict,
    may_be: Whose::may_be,
    may_replace: decide::may_replace,
    judge: |hosts, process, scene| hosts.judge(process, scene),
    empty: |hosts, owner, members, scene| hosts.empty(owner, members, scene),
    settle,
};

/// Steps of one schedule, before everything is let come to rest.
const STEPS: u64 = 40;

/// Runs one schedule; says what went wrong, and with a trace how it came to that.
fn run(seed: u64, decisions: Decisions, trace: Option<Vec<String>>) -> Result<(), String> {
    let mut random = Random::new(seed);
    let mut world = World::new(&mut random, decisions);
    world.trace = trace;
    let steps = (0..STEPS).try_for_each(|_| world.step(&mut random));
    let outcome = steps.and_then(|()| world.come_to_rest(&mut random));
    outcome.map_err(|wrong| {
        let trace = world.trace.unwrap_or_default().join("\n  ");
        let alive = world.processes;
        format!("{wrong}\n  {trace}\n{alive:#?}")
    })
}

/// Runs so many schedules; the seed of the first one can be set.
fn explore(schedules: u64, decisions: Decisions) -> Result<(), String> {
    let seed = std::env::var("MCP_MODEL_SEED").ok();
    let first = seed.and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in first..first + schedules {
        if run(seed, decisions, None).is_err() {
            let wrong = run(seed, decisions, Some(Vec::new()));
            return wrong.map_err(|wrong| format!("MCP_MODEL_SEED={seed}: {wrong}"));
        }
    }
    Ok(())
}

#[test]
fn no_wrong_proof_no_stranger_and_nobody_forgotten() {
    if let Err(wrong) = explore(100_000, REAL) {
        panic!("{wrong}");
    }
}

#[test]
fn every_wrong_decision_is_noticed() {
    let wrong: [(&str, Decisions); 11] = [
        (
            "the guardian claims while one child lives",
            Decisions {
                nobody_is_left: |children| children <= 1,
                ..REAL
            },
        ),
        (
            "the guardian's word is enough, whatever the cgroup says",
            Decisions {
                concluded: |_| Ok(Vec::new()),
                ..REAL
            },
        ),
        (
            "a guardian that has reaped everybody has missed nobody abroad",
            Decisions {
                is_out_of_reach: |_| false,
                ..REAL
            },
        ),
        (
            "an empty cgroup is all the proof it takes",
            Decisions {
                verdict: |findings| match findings.cgroup {
                    Cgroup::Empty => Ok(vec![Proof::CgroupEmpty]),
                    _ => findings.verdict(),
                },
                ..REAL
            },
        ),
        (
            "a host that cannot look takes it that nobody is there",
            Decisions {
                verdict: |findings| {
                    let marked = match findings.marked {
                        decide::Marked::Unknown(_) => decide::Marked::Nobody,
                        _ => findings.marked.clone(),
                    };
                    let adopted = match findings.adopted {
                        Adopted::Unknown(_) => Adopted::Nobody,
                        _ => findings.adopted.clone(),
                    };
                    let findings = Findings {
                        marked,
                        adopted,
                        ..findings.clone()
                    };
                    findings.verdict()
                },
                ..REAL
            },
        ),
        (
            "nobody asks who was given to another parent",
            Decisions {
                verdict: |findings| {
                    let findings = Findings {
                        adopted: Adopted::Nobody,
                        ..findings.clone()
                    };
                    findings.verdict()
                },
                ..REAL
            },
        ),
        (
            "who does not say whose it is, is nobody's",
            Decisions {
                may_be: |whose, server, since| {
                    *whose != Whose::Anybody && whose.may_be(server, since)
                },
                ..REAL
            },
        ),
        (
            "a guardian that is held is given up although nothing else works",
            Decisions {
                may_replace: |is_held, _| is_held,
                verdict: |findings| match findings.cgroup {
                    Cgroup::None => Ok(Vec::new()),
                    _ => findings.verdict(),
                },
                ..REAL
            },
        ),
        (
            "whoever is marked is ended",
            Decisions {
                judge: |hosts, process, scene| match hosts.judge(process, scene) {
                    Verdict::Spare => Verdict::End,
                    verdict => verdict,
                },
                ..REAL
            },
        ),
        (
            "a cgroup of a dead host is emptied whoever is inside",
            Decisions {
                empty: |hosts, owner, members, scene| match hosts.empty(owner, members, scene) {
                    Emptying::Each => Emptying::All,
                    emptying => emptying,
                },
                ..REAL
            },
        ),
        (
            "who cannot look takes it that nobody is there",
            Decisions {
                settle: |evidence| {
                    let looked = match &evidence.looked {
                        Looked::Unseen(_) | Looked::Suspect => Looked::Nobody,
                        looked => looked.clone(),
                    };
                    let gone = |leaf: &Option<LeafState>| leaf.as_ref().map(|_| LeafState::Gone);
                    settle(&Evidence {
                        servers: evidence.servers.iter().map(gone).collect(),
                        looked,
                        ..evidence.clone()
                    })
                },
                ..REAL
            },
        ),
    ];
    for (what, decisions) in wrong {
        assert!(explore(100_000, decisions).is_err(), "unnoticed: {what}");
    }
}
