//! The model test of guardian, host and reaper: random interleavings of their steps in a world
//! without clocks and processes.
//!
//! The decisions are the real ones: of the guardian (`course`), of a host without its guardian
//! (`decide`), and of the next host (`verdict`, `settle`). The world does what the edges do: it kills,
//! reaps and looks. Three things are checked at every step:
//!
//! * **never a wrong proof**: nothing of a server lives when its end is proven,
//! * **never a stranger**: only a server's processes are killed,
//! * **never forgotten**: a process that lives on is recorded, or not visible to any host in a way that
//!   `docs/containment.md` names.
//!
//! A decision can be replaced by a wrong one, which must be noticed.

#[path = "../../../../mcp-guardian/guardian-bin/course.rs"]
#[expect(
    dead_code,
    clippy::manual_unwrap_or_default,
    reason = "the guardian uses the rest, and links no library"
)]
mod course;
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

use self::random::Random;
use self::world::World;
use super::census::is_out_of_reach;
use super::settle::{Evidence, LeafState, Looked, Settlement, settle};
use super::verdict::{Emptying, Hosts, Process, Scene, Verdict};
use crate::adopted::Whose;
use crate::conclusion::{Emptied, Found, Holder, Inside, decide};
use crate::identity::{Cookie, HostId};

/// All evidence, or why there is no proof.
type Proven = Result<Vec<Proof>, Cow<'static, str>>;

/// The decisions, each of which can be replaced by a wrong one.
#[derive(Debug, Clone, Copy)]
struct Decisions {
    /// By the guardian, from the number of children left.
    nobody_is_left: fn(usize) -> bool,
    /// By the host, after the guardian has reaped all descendants.
    concluded: fn(&Holder) -> Result<Option<Proof>, Cow<'static, str>>,
    /// By the host, of a process in another PID namespace, after the guardian has reaped all
    /// descendants; from whether its parent is here.
    is_out_of_reach: fn(bool) -> bool,
    /// By the host, of a server without its guardian's final report.
    verdict: fn(&Emptied, &Result<Found, String>) -> Proven,
    /// By the host, of its sessions: the first one, and the present one.
    own_sessions: fn([u32; 2]) -> [u32; 2],
    /// By the host, of a process that was reparented since the server was started.
    may_be: fn(&Whose, &Cookie, u64) -> bool,
    /// By the host, of a guardian that a tracer holds.
    may_replace: fn(bool, bool) -> bool,
    /// By the next host.
    judge: fn(&Hosts<'_>, &Process, &Scene) -> Verdict,
    empty: fn(&Hosts<'_>, &HostId, &[u32], &Scene) -> Emptying,
    settle: fn(&Evidence) -> Settlement,
}

const REAL: Decisions = Decisions {
    nobody_is_left: |children| children == 0,
    concluded: Holder::evidence,
    is_out_of_reach,
    verdict: Emptied::verdict,
    own_sessions: |sessions| sessions,
    may_be: Whose::may_be,
    may_replace: decide::may_replace,
    judge: |hosts, process, scene| hosts.judge(process, scene),
    empty: |hosts, owner, members, scene| hosts.empty(owner, members, scene),
    settle,
};

fn found(adopted: Option<String>) -> Found {
    let ended = Inside::default();
    Found { ended, adopted }
}

/// The number of steps of one schedule before the world comes to rest.
const STEPS: u64 = 40;

/// Runs one schedule. The error has the fault and, with a trace, the steps that led to it.
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

/// Runs this number of schedules. `MCP_MODEL_SEED` sets the first seed.
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
fn no_wrong_proof_no_stranger_none_forgotten() {
    if let Err(wrong) = explore(100_000, REAL) {
        panic!("{wrong}");
    }
}

#[test]
fn every_wrong_decision_is_noticed() {
    let wrong: [(&str, Decisions); 13] = [
        (
            "the guardian claims while one child lives",
            Decisions {
                nobody_is_left: |children| children <= 1,
                ..REAL
            },
        ),
        (
            "the guardian's report is enough, whatever the state of the cgroup",
            Decisions {
                concluded: |_| Ok(None),
                ..REAL
            },
        ),
        (
            "a guardian that has reaped all descendants has missed none in other namespaces",
            Decisions {
                is_out_of_reach: |_| false,
                ..REAL
            },
        ),
        (
            "an empty cgroup is all the proof it takes",
            Decisions {
                verdict: |emptied, searched| match &emptied.holder {
                    Holder::Empty(evidence) => Ok(vec![evidence.clone()]),
                    _ => emptied.verdict(searched),
                },
                ..REAL
            },
        ),
        (
            "a host that cannot look assumes that none is left",
            Decisions {
                verdict: |emptied, searched| match searched {
                    Ok(_) => emptied.verdict(searched),
                    Err(_) => emptied.verdict(&Ok(found(None))),
                },
                ..REAL
            },
        ),
        (
            "reparented processes are ignored",
            Decisions {
                verdict: |emptied, searched| match searched {
                    Ok(_) => emptied.verdict(&Ok(found(None))),
                    Err(_) => emptied.verdict(searched),
                },
                ..REAL
            },
        ),
        (
            "company in the session of the host clears a process",
            Decisions {
                own_sessions: |_| [u32::MAX; 2],
                ..REAL
            },
        ),
        (
            "a host has always been in its present session",
            Decisions {
                own_sessions: |[_, now]| [now; 2],
                ..REAL
            },
        ),
        (
            "a process without a mark belongs to no server",
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
                verdict: |emptied, searched| match &emptied.holder {
                    Holder::None => Ok(Vec::new()),
                    _ => emptied.verdict(searched),
                },
                ..REAL
            },
        ),
        (
            "every marked process is ended",
            Decisions {
                judge: |hosts, process, scene| match hosts.judge(process, scene) {
                    Verdict::Spare => Verdict::End,
                    verdict => verdict,
                },
                ..REAL
            },
        ),
        (
            "a cgroup of a dead host is emptied whatever its members",
            Decisions {
                empty: |hosts, owner, members, scene| match hosts.empty(owner, members, scene) {
                    Emptying::Each => Emptying::All,
                    emptying => emptying,
                },
                ..REAL
            },
        ),
        (
            "a reaper that cannot look assumes that none is left",
            Decisions {
                settle: |evidence| {
                    let looked = match &evidence.looked {
                        Looked::Unseen(_) | Looked::Suspect => Looked::Clear,
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
