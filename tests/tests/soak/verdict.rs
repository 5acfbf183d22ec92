//! Whether what is declared holds: claims, deaths in time, and what is left.

use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mcp_lifecycle_conformance::alive::Holder;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::case::{Case, STEP};
use crate::host::policy;
use crate::judge::{self, Facts, Level};
use crate::plan::What;
use crate::process::{Process, children_of, descriptors_of, threads_of};
use crate::servers::Server;
use crate::stage::overdue;
use crate::told::{Excused, Told};
use crate::{Check, LIMIT};

/// How much later than the policy's longest an end may be: a loaded machine.
const SLACK: Duration = Duration::from_secs(3);

/// How long a stopped guardian that the host has let go of stays stopped.
const OVERDUE: Duration = Duration::from_secs(6);

impl Case<'_> {
    /// Judges all of it, in the order in which less and less may be left.
    pub(crate) fn judge(
        &mut self,
        host: &mut Process,
        before: Option<Vec<String>>,
    ) -> Check<Excused> {
        let mut excused = self.claims()?;
        self.in_time("the host let go of its servers", LIMIT)?;
        if !self.facts.host_dead {
            if let Some(before) = before
                && self.everybody_is_dead()
            {
                excused.continued += holds_no_more(host.pid(), &before)?;
            }
            host.end(LIMIT)?;
            self.facts.host_dead = true;
            self.in_time("the host ended", LIMIT)?;
        }
        let orphans = self.alive();
        let connected = self.connected();
        let report = self.reap()?;
        self.proceed();
        let since = format!("the next host looked for orphans: {report}");
        if let Err(failure) = self.in_time(&since, LIMIT) {
            // Only what was executed since then, and had looked like the host, is left to one more.
            if self.connected() == connected {
                return Err(failure);
            }
            let report = self.reap()?;
            self.in_time(&format!("the next host looked once more: {report}"), LIMIT)?;
        }
        excused.orphans = orphans.saturating_sub(self.alive()) as u64;
        if self.everybody_is_dead() {
            self.nobody_is_inside()?;
        }
        for (index, told) in &*self.book.lock().unwrap_or_else(PoisonError::into_inner) {
            let now = self.observers[*index].connections().len();
            if let Some(then) = told.connections.filter(|then| *then != now) {
                let more = now - then;
                return Err(format!(
                    "server {index}: proven gone, then {more} more connected"
                ));
            }
        }
        Ok(excused)
    }

    /// Nobody lives, also of those who had not connected yet. Who connects now is judged as
    /// all others: the host had forked it and was killed before it was executed, and looked
    /// alive to the first search.
    fn nobody_is_inside(&mut self) -> Check {
        let end = Instant::now() + LIMIT;
        loop {
            self.continue_guardians();
            let inside = self.stage.inside("host");
            if inside.is_empty() {
                return Ok(());
            }
            if !self.everybody_is_dead() {
                let report = self.reap()?;
                return self.in_time(&format!("the next host looked once more: {report}"), LIMIT);
            }
            if Instant::now() > end {
                return Err(format!("nobody is connected, and these live: {inside:?}"));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Checks the host's statements against what was true at the time, and against what it had to say.
    fn claims(&self) -> Check<Excused> {
        let mut excused = Excused::default();
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, server) in self.servers.iter().enumerate() {
            let none = Told::default();
            let told = book.get(&index).unwrap_or(&none);
            let name = format!("server {index} [{server}]");
            excused.launches += u64::from(told.started);
            excused.proofs += u64::from(told.proven);
            if !told.lies.is_empty() {
                return Err(format!("{name}: WRONG PROOF, these live: {:?}", told.lies));
            }
            excused.kept_back += told.kept_back + u64::from(told.kept_back_start.is_some());
            let failed = told.refused.as_ref().or(told.kept_back_start.as_ref());
            let unproven = told.unproven.as_ref().filter(|_| told.unproven_start);
            if let Some(why) = failed.or(unproven) {
                if !judge::may_fail(self.plan, server) {
                    return Err(format!("{name}: cannot be started: {why}"));
                }
                excused.refused += 1;
            }
            if let Some(why) = &told.unproven {
                let level = told.level.unwrap_or(Level::least(self.plan));
                let fault = self.plan.fault.map(|fault| fault.what);
                let stopped = fault == Some(What::StopGuardians);
                let facts = Facts {
                    guardian_stopped: stopped || server.stops_its_guardian(),
                    ..self.facts_of(server, self.facts)
                };
                // A start that failed has failed while there were descriptors.
                let again = told.unproven_again || (told.unproven_start && !facts.guardian_stopped);
                if !judge::may_be_unproven(self.plan, level, facts, again) {
                    let alive = self.alive_now();
                    return Err(format!("{name}: no proof: {why}\n  {alive}"));
                }
                excused.unproven += 1;
            }
            let longest = policy(self.plan).longest() + SLACK + self.stopped_for();
            if told.took > longest {
                return Err(format!(
                    "{name}: its end took {:?} of {longest:?}",
                    told.took
                ));
            }
        }
        Ok(excused)
    }

    fn stopped_for(&self) -> Duration {
        match self.plan.fault {
            Some(fault) if fault.what == What::StopHostForAWhile => Duration::from_millis(150),
            _ => Duration::ZERO,
        }
    }

    fn facts_of(&self, server: &Server, facts: Facts) -> Facts {
        Facts {
            guardian_killed: facts.guardian_killed || server.kills_its_guardian(),
            guardian_stopped: facts.guardian_stopped
                || (!self.continuing && server.stops_its_guardian()),
            ..facts
        }
    }

    /// Waits until everybody is dead who must be by now.
    fn in_time(&self, since: &str, limit: Duration) -> Check {
        let end = Instant::now() + limit;
        for (index, server) in self.servers.iter().enumerate() {
            let level = {
                let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
                book.get(&index).and_then(|told| told.level)
            };
            let level = level.unwrap_or(Level::least(self.plan));
            let facts = self.facts_of(server, self.facts);
            // Let go of by whoever lives: by a client that has the proof, or none.
            let must = |role: &str| {
                judge::must_be_dead(level, server.held(role, !self.plan.unprivileged), facts)
            };
            loop {
                if self.continuing {
                    self.continue_guardians();
                }
                let alive = overdue(&self.observers[index], false, must)?;
                if alive.is_empty() {
                    break;
                }
                if Instant::now() > end {
                    let names: Vec<_> = alive.iter().map(|one| one.holder().to_string()).collect();
                    return Err(format!(
                        "server {index} [{server}], {level:?}, {facts:?}: these live on {limit:?} \
                         after {since}: {names:?}"
                    ));
                }
                thread::sleep(Duration::from_millis(3));
            }
        }
        Ok(())
    }

    /// The number of processes that have ever connected.
    fn connected(&self) -> usize {
        self.observers
            .iter()
            .map(|one| one.connections().len())
            .sum()
    }

    fn alive(&self) -> usize {
        self.observers.iter().map(|one| one.alive().len()).sum()
    }

    /// The living processes, and the work of their threads.
    fn alive_now(&self) -> String {
        let alive = self.observers.iter().flat_map(|one| one.alive());
        let describe = |holder: Holder| {
            let pid = Pid::from_raw(holder.pid.cast_signed());
            format!("alive: {holder}\n{}", threads_of(pid))
        };
        alive.map(describe).collect::<Vec<_>>().join("\n  ")
    }

    fn everybody_is_dead(&self) -> bool {
        self.alive() == 0
    }

    /// The next host looks for orphans; some of it at the same time as others.
    fn reap(&mut self) -> Check<String> {
        let start = |_| Process::start(&mut self.stage.role(&["reap"], "reaper"), |_| {});
        let reapers: Check<Vec<_>> = (0..self.plan.reapers).map(start).collect();
        let mut alone = true;
        let mut reports = Vec::new();
        for mut reaper in reapers? {
            let Some((_, report)) = reaper.hear("reaped", STEP)? else {
                return Err(format!("the search for orphans: {:?}", reaper.said));
            };
            reaper.end(LIMIT)?;
            alone &= self.plan.reapers == 1;
            let stopped =
                self.facts.guardian_stopped || self.servers.iter().any(Server::stops_its_guardian);
            if alone && !stopped && !report.starts_with("0 ") {
                return Err(format!(
                    "the search for orphans could not end some: {report}"
                ));
            }
            reports.push(report);
        }
        self.facts.reaped = true;
        Ok(reports.join("; "))
    }

    /// Ends whatever is out of everybody's reach, and looks at what is left on disk.
    pub(crate) fn clean_up(&mut self) -> Check<u64> {
        let out_of_reach = self.alive() as u64;
        // Whoever lived keeps the evidence; without them there is none to keep.
        self.observers = Arc::new(Vec::new());
        for name in ["host", "elsewhere"] {
            let end = Instant::now() + LIMIT;
            while !self.stage.inside(name).is_empty() && Instant::now() < end {
                thread::sleep(Duration::from_millis(2));
            }
        }
        let end = Instant::now() + LIMIT;
        let mut report = String::new();
        loop {
            let left = self.stage.left_behind();
            if left.is_empty() {
                return Ok(out_of_reach);
            }
            if Instant::now() > end {
                return Err(format!(
                    "left on disk, and nobody lives: {left:?}; the last search: {report}"
                ));
            }
            report = self.reap()?;
        }
    }
}

/// The host holds nothing of servers that are gone: no descriptor, no zombie. Who has
/// stopped a guardian behind the last order that it was given has to let it go on, as
/// documented: says how many were.
fn holds_no_more(host: Pid, before: &[String]) -> Check<u64> {
    // Its standard input, and two that are kept for the day on which there is none: since
    // the first launch that came so far, which may be after `before`.
    const NULLS: usize = 3;
    let end = Instant::now() + LIMIT;
    // The `/proc` that a host opens once, at its first look: after `before` too.
    const PROC: usize = 1;
    let count = |all: &[String], what: &str| all.iter().filter(|target| *target == what).count();
    let nulls = |all: &[String]| count(all, "/dev/null");
    let procs = |all: &[String]| count(all, "/proc");
    let others = |all: &[String]| all.len() - nulls(all) - procs(all);
    let mut continued = 0;
    let overdue = Instant::now() + OVERDUE;
    loop {
        let now = descriptors_of(host);
        let children = children_of(host);
        if continued == 0 && Instant::now() > overdue {
            for (pid, name, state) in &children {
                if name == "mcp-guardian" && *state == 'T' && kill(*pid, Signal::SIGCONT).is_ok() {
                    continued += 1;
                }
            }
        }
        let no_more = others(&now) <= others(before)
            && procs(&now) <= PROC
            && nulls(&now) <= nulls(before).max(NULLS);
        if no_more && children.is_empty() {
            return Ok(continued);
        }
        if Instant::now() > end {
            return Err(format!(
                "the host holds on to something: {before:?} before, {now:?} now; children {children:?}"
            ));
        }
        thread::sleep(Duration::from_millis(5));
    }
}
