//! The plan of one iteration: drawn from its seed, and nothing else.

use std::fmt;

use mcp_launcher_local::Isolation;
use mcp_lifecycle_conformance::random::Random;

use crate::servers::{self, Server};

/// One iteration.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) isolation: Isolation,
    /// As a user without privileges. Always, where the soak itself is one.
    pub(crate) unprivileged: bool,
    /// Servers may have cgroups of their own.
    pub(crate) cgroups: bool,
    pub(crate) servers: Vec<Server>,
    /// The host has launched something before.
    pub(crate) warm: bool,
    /// The host's runtime has several threads.
    pub(crate) threads: bool,
    pub(crate) trouble: Trouble,
    pub(crate) fault: Option<Fault>,
    pub(crate) end: End,
    /// Another host of the same user is beside, whom nothing may disturb.
    pub(crate) beside: bool,
    /// How many look for orphans at the same time, once the host is dead.
    pub(crate) reapers: u64,
}

/// The trouble of the host from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    IgnoresSigchld,
    /// A thread of it reaps whatever ends.
    ReapsEverybody,
    /// Its observer panics when it is told this event.
    ObserverPanics(u64),
    /// It has so many descriptors while it launches.
    Descriptors(u64),
    /// Its user has so many processes while it launches.
    Processes(u64),
    /// It has no descriptor left when the end begins.
    NoDescriptors,
}

/// A fault of the host from outside, and its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) what: What,
    pub(crate) when: When,
    pub(crate) micros: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    KillHost,
    StopHostForAWhile,
    KillGuardians,
    StopGuardians,
    StopGuardiansForAWhile,
    /// Together: nobody of either has an instant for the other's work.
    KillHostAndGuardians,
    StopGuardiansKillHost,
    /// The host's cgroup, with everything below it.
    KillCgroup,
}

/// After what the fault is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Launching,
    Running,
    Ending,
}

/// How the host lets go of its servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Shutdown,
    DropClients,
    DropRuntime,
    ExitForgetting,
    Abort,
    ExitFromThread,
    /// The runtime goes away, so long after the launches began.
    ShutdownBackground(u64),
    ShutdownTimeout(u64),
    /// The launches are dropped, so long after they began.
    DropLaunches(u64),
}

/// The abilities of the machine and the user.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine {
    pub(crate) root: bool,
    pub(crate) cgroups: bool,
}

impl Plan {
    pub(crate) fn draw(seed: u64, machine: Machine) -> Self {
        let random = &mut Random::new(seed);
        let unprivileged = !machine.root || random.percent(50);
        let cgroups = machine.cgroups && random.percent(60);
        let isolation = *random.pick(&[
            Isolation::Guardian,
            Isolation::Guardian,
            Isolation::PidNamespace,
            Isolation::ProcessGroup,
        ]);
        let count = 1 + random.below(3);
        let servers = (0..count).map(|_| servers::draw(random, unprivileged));
        let servers = servers.collect();
        let trouble = trouble(random, unprivileged);
        let end = end(random);
        // One thing at a time goes wrong with the launches themselves.
        let interrupted = matches!(
            end,
            End::ShutdownBackground(_) | End::ShutdownTimeout(_) | End::DropLaunches(_)
        );
        let fault = (!interrupted && random.percent(65)).then(|| fault(random, machine));
        Self {
            seed,
            isolation,
            unprivileged,
            cgroups,
            servers,
            warm: random.percent(60),
            threads: random.percent(70),
            trouble,
            fault,
            end,
            beside: random.percent(40),
            reapers: 1 + random.below(2),
        }
    }

    /// A host that does nothing wrong, for the other ones to leave alone.
    pub(crate) fn beside(isolation: Isolation) -> Self {
        Self {
            seed: 0,
            isolation,
            unprivileged: false,
            cgroups: true,
            servers: vec![Server::of(&["acts", "--act", "daemon", "--act", "helper"])],
            warm: true,
            threads: true,
            trouble: Trouble::None,
            fault: None,
            end: End::Shutdown,
            beside: false,
            reapers: 0,
        }
    }

    /// Returns whether a guardian is stopped at the end of a server: by the plan, or by a server.
    pub(crate) fn stops_guardians(&self) -> bool {
        let stops = |fault: Fault| {
            matches!(
                fault.what,
                What::StopGuardians | What::StopGuardiansKillHost
            )
        };
        self.fault.is_some_and(stops) || self.servers.iter().any(Server::stops_its_guardian)
    }

    /// Whether the host is still there when it has let go of its servers, as
    /// far as it is up to the host.
    pub(crate) fn host_survives_its_end(&self) -> bool {
        !matches!(
            self.end,
            End::ExitForgetting | End::Abort | End::ExitFromThread
        )
    }

    /// Whether what happens to the host is its end.
    pub(crate) fn kills_host(&self) -> bool {
        self.fault.is_some_and(|fault| {
            !matches!(
                fault.what,
                What::StopHostForAWhile
                    | What::KillGuardians
                    | What::StopGuardians
                    | What::StopGuardiansForAWhile
            )
        })
    }

    /// Whether the host gives proofs, or anything besides its silence.
    pub(crate) fn proves(&self) -> bool {
        self.end == End::Shutdown
    }
}

fn trouble(random: &mut Random, unprivileged: bool) -> Trouble {
    match random.below(14) {
        0 => Trouble::IgnoresSigchld,
        1 => Trouble::ReapsEverybody,
        2 => Trouble::ObserverPanics(random.below(5)),
        3 => Trouble::Descriptors(8 + random.below(40)),
        4 if unprivileged => Trouble::Processes(1 + random.below(12)),
        5 => Trouble::NoDescriptors,
        _ => Trouble::None,
    }
}

fn end(random: &mut Random) -> End {
    // Most of what a start does is in its first milliseconds.
    let micros = match random.percent(70) {
        true => random.below(4_000),
        false => random.below(40_000),
    };
    match random.below(16) {
        0 => End::DropClients,
        1 => End::DropRuntime,
        2 => End::ExitForgetting,
        3 => End::Abort,
        4 => End::ExitFromThread,
        5 => End::ShutdownBackground(micros),
        6 => End::ShutdownTimeout(micros),
        7 | 8 => End::DropLaunches(micros),
        _ => End::Shutdown,
    }
}

fn fault(random: &mut Random, machine: Machine) -> Fault {
    let what = match random.below(12) {
        0..=2 => What::KillHost,
        3 => What::StopHostForAWhile,
        4 | 5 => What::KillGuardians,
        6 => What::StopGuardians,
        7 => What::StopGuardiansForAWhile,
        8 | 9 => What::KillHostAndGuardians,
        10 => What::StopGuardiansKillHost,
        _ if machine.cgroups => What::KillCgroup,
        _ => What::KillHost,
    };
    let (when, span) = *random.pick(&[
        (When::Launching, 30_000),
        (When::Running, 5_000),
        (When::Ending, 250_000),
    ]);
    Fault {
        what,
        when,
        micros: random.below(span),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: {} host of {}, {:?}, {}, runtime of {}; trouble: {:?}; servers:",
            self.seed,
            if self.warm { "a warm" } else { "a cold" },
            if self.unprivileged { "nobody" } else { "root" },
            self.isolation,
            if self.cgroups {
                "cgroups"
            } else {
                "no cgroups"
            },
            if self.threads {
                "several threads"
            } else {
                "one thread"
            },
            self.trouble,
        )?;
        for server in &self.servers {
            write!(f, " [{server}]")?;
        }
        match &self.fault {
            Some(Fault { what, when, micros }) => {
                write!(f, "; fault: {what:?}, {micros} us after {when:?} began")?;
            }
            None => write!(f, "; no fault")?,
        }
        write!(f, "; end: {:?}; {} reapers", self.end, self.reapers)?;
        match self.beside {
            true => write!(f, ", another host beside"),
            false => Ok(()),
        }
    }
}
