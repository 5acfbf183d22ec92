//! One iteration, from the first process to the last file.

use std::process::Stdio;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use mcp_lifecycle_conformance::alive::AliveListener;
use nix::unistd::Pid;

use crate::ended::ends_within;
use crate::host::STARTUP;
use crate::judge::{Facts, Level};
use crate::plan::{Machine, Plan, Trouble, When};
use crate::process::{Process, descriptors_of, is_stranger};
use crate::role::{HOLDER, OBSERVERS};
use crate::servers::Server;
use crate::stage::{Stage, observer};
use crate::told::{Book, Excused, take_down};
use crate::{Check, LIMIT};

/// For the steps of a host: its starts can take their whole time-out, and all
/// their ends.
pub(crate) const STEP: Duration = Duration::from_secs(40);

/// More strangers than that do not come one after the other.
const ROUNDS_MAX: u32 = 8;

/// One iteration under way.
pub(crate) struct Case<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) machine: Machine,
    /// One for each server, and one for the host's last, plain one.
    pub(crate) observers: Arc<Vec<AliveListener>>,
    pub(crate) servers: Vec<Server>,
    pub(crate) book: Book,
    pub(crate) facts: Facts,
    /// Those of the host, as far as they were seen.
    pub(crate) guardians: Vec<Pid>,
    /// Stopped guardians are continued from here on, whoever stopped them.
    pub(crate) continuing: bool,
    /// The last to go: without observers nobody is left in it.
    pub(crate) stage: Stage,
}

pub(crate) fn run(plan: &Plan, machine: Machine) -> Check<Excused> {
    let stage = Stage::new(plan, machine).map_err(|error| format!("the stage: {error}"))?;
    let mut servers = plan.servers.clone();
    servers.push(Server::of(&["plain"]));
    let observers: Result<Vec<_>, _> = servers.iter().map(|_| observer()).collect();
    let observers = observers.map_err(|error| format!("an observer: {error}"))?;
    let mut case = Case {
        plan,
        machine,
        stage,
        observers: Arc::new(observers),
        servers,
        book: Book::default(),
        facts: Facts::default(),
        guardians: Vec::new(),
        continuing: false,
    };
    let done = case.play();
    case.proceed();
    let said = std::fs::read_to_string(case.stage.file("stderr")).unwrap_or_default();
    done.map_err(|failure| {
        let tail: Vec<_> = said.lines().rev().take(12).collect();
        let tail: Vec<_> = tail.into_iter().rev().collect();
        format!("{failure}\n  host's last words: {}", tail.join("\n    "))
    })
}

impl Case<'_> {
    fn play(&mut self) -> Check<Excused> {
        let bystander = observer().map_err(|error| error.to_string())?;
        let _bystander = self.bystander(&bystander)?;
        let holder = observer().map_err(|error| error.to_string())?;
        let _holder = self.holder(&holder)?;
        let beside = [(); 2].map(|()| observer());
        let beside = beside.into_iter().collect::<Result<Vec<_>, _>>();
        let beside = Arc::new(beside.map_err(|error| error.to_string())?);
        let mut neighbour = self.neighbour(&beside)?;
        let mut host = self.host(_holder.as_ref())?;

        let lived = self.live(&mut host);
        let said = host.said.join("\n    ");
        let judged = lived.and_then(|before| self.judge(&mut host, before));
        drop(host);
        let mut excused = judged.map_err(|failure| format!("{failure}\n    {said}"))?;

        for observer in [&bystander, &holder, &beside[0]] {
            all_live(observer).map_err(|failure| format!("a stranger: {failure}"))?;
        }
        if let Some(neighbour) = &mut neighbour {
            neighbour.answer("");
            neighbour.hear("done", STEP)?;
            let proofs = neighbour
                .said
                .iter()
                .filter(|line| line.starts_with("proof "));
            // Of its server, and of the plain one that every host ends with.
            if proofs.count() < 2 {
                let said = neighbour.said.join("\n    ");
                return Err(format!("the host beside gives no proof:\n    {said}"));
            }
            neighbour.end(LIMIT)?;
        }
        excused.out_of_reach += self.clean_up()?;
        Ok(excused)
    }

    /// Somebody who is nobody's server, with an environment that could be taken for one's.
    fn bystander(&self, observer: &AliveListener) -> Check<Process> {
        let mut command = self.stage.fixture("linger", observer);
        command.env(
            "MCP_LIFECYCLE_ID",
            "1.1.00000000-0000-0000-0000-000000000000.0",
        );
        let process = Process::start(&mut command, |_| {})?;
        accept(observer, "server")?;
        Ok(process)
    }

    /// Starts the holder of the PID namespace that servers escape to.
    fn holder(&self, observer: &AliveListener) -> Check<Option<Process>> {
        if !self.servers.iter().any(Server::needs_foreign_namespace) {
            return Ok(None);
        }
        let mut command = self.stage.fixture("foreign-namespace", observer);
        let process = Process::start(&mut command, |_| {})?;
        accept(observer, "foreign-init")?;
        Ok(Some(process))
    }

    fn neighbour(&self, observers: &Arc<Vec<AliveListener>>) -> Check<Option<Process>> {
        if !self.plan.beside {
            return Ok(None);
        }
        let mut command = self.stage.role(&["beside"], "beside");
        command.env(OBSERVERS, addresses(observers));
        let mut process = Process::start(&mut command, |_| {})?;
        process.hear("warm", STEP)?;
        process.answer("");
        process
            .hear("up", STEP)?
            .ok_or("the host beside ends by itself")?;
        for role in ["server", "daemon", "helper"] {
            accept(&observers[0], role)?;
        }
        Ok(Some(process))
    }

    fn host(&self, holder: Option<&Process>) -> Check<Process> {
        let seed = self.plan.seed.to_string();
        let [user, cgroups] = self.machine.flags();
        let args = ["host", &seed, user, cgroups];
        let mut command = match self.plan.trouble {
            Trouble::IgnoresSigchld => self.stage.role_after("trap '' CHLD", &args, "host"),
            _ => self.stage.role(&args, "host"),
        };
        if let Some(holder) = holder {
            command.env(HOLDER, holder.pid().to_string());
        }
        let stderr = std::fs::File::create(self.stage.file("stderr"));
        command
            .env(OBSERVERS, addresses(&self.observers))
            .stderr(stderr.map_or_else(|_| Stdio::null(), Stdio::from));
        let (book, observers) = (Arc::clone(&self.book), Arc::clone(&self.observers));
        let servers = self.servers.clone();
        let base = self.stage.cgroup.clone();
        let by_group = Level::least(self.plan) == Level::Group;
        Process::start(&mut command, move |line| {
            let is_stranger =
                |pid: &u32| base.as_deref().is_some_and(|base| is_stranger(*pid, base));
            take_down(&book, &observers, &servers, by_group, is_stranger, line);
        })
    }

    /// From the host's first word to its last, with what happens to it. Says
    /// what the host held before its first launch.
    fn live(&mut self, host: &mut Process) -> Check<Option<Vec<String>>> {
        let mut before = None;
        if self.plan.warm {
            if host.hear("warm", STEP)?.is_none() {
                return Err("the host ends while it warms up".to_owned());
            }
            before = Some(descriptors_of(host.pid()));
            host.answer("");
        }
        let Some((begun, _)) = host.hear("launching", STEP)? else {
            return Err("the host ends before it launches".to_owned());
        };
        self.inject(When::Launching, begun, host);
        if host.hear("up", STEP)?.is_none() {
            return self.ended(host).map(|()| before);
        }
        self.inject(When::Running, Instant::now(), host);
        host.answer("");
        let Some((begun, _)) = host.hear("ending", STEP)? else {
            return self.ended(host).map(|()| before);
        };
        self.inject(When::Ending, begun, host);
        if self.plan.proves() {
            // Calling again tries again: once, and whenever strangers have gone.
            let mut tries = 0;
            for round in 0.. {
                if host.hear("done", STEP)?.is_none() {
                    return self.ended(host).map(|()| before);
                }
                self.proceed();
                let strangers = self.strangers();
                if strangers.is_empty() {
                    tries += 1;
                    if tries > 1 || !self.is_unproven() {
                        break;
                    }
                }
                if round >= ROUNDS_MAX {
                    return Err(format!(
                        "a proof is kept back again and again: {strangers:?}"
                    ));
                }
                for pid in strangers {
                    if !ends_within(pid, STEP).map_err(|error| error.to_string())? {
                        return Err(format!("{pid}, who keeps a proof back, does not end"));
                    }
                }
                host.answer("again");
            }
            host.answer("");
        }
        match host.hear("idle", STEP)? {
            // What it said before it was killed says nothing of what it does after that.
            Some(_) if !self.plan.kills_host() => Ok(before),
            _ => self.ended(host).map(|()| before),
        }
    }

    /// The host has nothing more to say: is that as planned?
    fn ended(&mut self, host: &mut Process) -> Check {
        let status = host.end(LIMIT)?;
        self.facts.host_dead = true;
        if self.plan.kills_host() || !self.plan.host_survives_its_end() {
            return Ok(());
        }
        Err(format!("the host ended by itself: {status}"))
    }

    /// Those who keep proofs back and are none of this case's.
    fn strangers(&self) -> Vec<u32> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let all = book.values().flat_map(|told| &told.kept_back_by);
        all.copied().collect()
    }

    fn is_unproven(&self) -> bool {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.values()
            .any(|told| told.unproven.is_some() && !told.proven)
    }
}

fn all_live(observer: &AliveListener) -> Check {
    for connection in observer.connections() {
        observer
            .block_on(connection.ping(LIMIT))
            .map_err(|error| format!("{}: {error}", connection.holder()))?;
    }
    Ok(())
}

fn accept(observer: &AliveListener, role: &str) -> Check {
    observer
        .block_on(observer.accept(role, STARTUP))
        .map(drop)
        .map_err(|error| error.to_string())
}

fn addresses(observers: &[AliveListener]) -> String {
    let addresses: Vec<_> = observers.iter().map(AliveListener::address).collect();
    addresses.join(",")
}
