//! Guardians that are ready before there is a server: `docs/spares.md`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::demand::Demand;
use super::fitness::Fitness;
use super::lull::Lull;
use super::process::{self, GuardianHandle, SpawnRequest};
use super::spawn::Record;
use super::surroundings::Surroundings;
use super::{Plan, Why};
use crate::identity::{self, Cookie};
use crate::sys::{self, ProcessState};

/// A guardian that waits for a server, and what is made for that server already.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) guardian: GuardianHandle,
    pub(super) identity: Cookie,
    pub(super) record: Record,
    cgroups: Result<&'static std::path::Path, Why>,
    surroundings: Surroundings,
}

/// The spare guardians of one launcher.
///
/// # Drop
///
/// Ends them; nothing is left of them when their guardians have heard it.
#[derive(Debug)]
pub(crate) struct Spares {
    shelf: Arc<Shelf>,
}

#[derive(Debug)]
struct Shelf {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    ready: Vec<Spare>,
    demand: Demand,
    fitness: Fitness,
    lull: Lull,
    /// Somebody waits for them: they are made now.
    is_urgent: bool,
    /// What the last launch asked for, which the next ones are made for.
    plan: Option<Plan>,
    maker: Maker,
    /// Ends the maker that was started before it changed.
    generation: u64,
    is_closed: bool,
}

/// The thread that makes spares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    /// Started by the next launch.
    None,
    Runs,
    /// It could not be started.
    Refused,
}

impl State {
    /// The number of spares that are to be there now.
    fn wanted(&mut self, now: Instant) -> usize {
        match self.fitness.is_of_use() {
            true => self.demand.wanted(now),
            false => 0,
        }
    }

    /// The plan for one that is made now, if one is.
    fn next_plan(&mut self, wanted: usize, now: Instant) -> Option<Plan> {
        if self.ready.len() >= wanted {
            self.is_urgent = false;
            return None;
        }
        let is_time = self.is_urgent || self.lull.remains(now).is_zero();
        self.plan.clone().filter(|_| is_time)
    }

    /// The time after which another number is wanted, or one is to be made.
    fn until_change(&self, wanted: usize, now: Instant) -> Duration {
        let fewer = self.demand.until_fewer(now);
        let wants = self.plan.is_some() && self.ready.len() < wanted;
        let lull = wants.then(|| self.lull.remains(now));
        fewer.into_iter().chain(lull).min().unwrap_or(Duration::MAX)
    }

    /// The spare for a launch with these surroundings, if one fits, and those that are given up.
    fn choose(&mut self, plan: &Plan, now: Surroundings) -> (Option<Spare>, Vec<Spare>) {
        let (alike, odd): (Vec<_>, Vec<_>) = self
            .ready
            .drain(..)
            .partition(|spare| spare.surroundings == now);
        let (mut fit, mut unfit): (Vec<_>, Vec<_>) = alike
            .into_iter()
            .partition(|spare| spare.cgroups == plan.cgroups && spare.is_ready());
        let taken = fit.pop();
        self.fitness
            .launched(taken.is_some(), odd.first().map(|it| &it.surroundings), now);
        unfit.extend(odd);
        self.ready = fit;
        (taken, unfit)
    }
}

impl Spares {
    /// At most so many at a time.
    pub(crate) fn new(most: usize) -> Self {
        let state = State {
            ready: Vec::new(),
            demand: Demand::new(most),
            fitness: Fitness::default(),
            lull: Lull::default(),
            is_urgent: false,
            plan: None,
            maker: Maker::None,
            generation: 0,
            is_closed: false,
        };
        Self {
            shelf: Arc::new(Shelf {
                state: Mutex::new(state),
                changed: Condvar::new(),
            }),
        }
    }

    /// Notes that a start begins, during which none is made.
    pub(crate) fn launching(&self) -> Launching {
        // A fork of the host launches nothing, and takes no lock that a thread may have held.
        if sys::not_forked().is_ok() {
            self.shelf.lock().lull.began(Instant::now());
        }
        Launching {
            shelf: Arc::clone(&self.shelf),
        }
    }

    /// Has the thread that makes them look at the clock. The launch has done its part by now, and is not delayed.
    pub(crate) fn launched(&self) {
        self.shelf.changed.notify_all();
    }

    /// Takes one that is no other than one that would be started now. The next one is made when the start is over.
    pub(super) fn take(&self, plan: &Plan) -> Option<Spare> {
        // As any fault of a spare, this is not the launch's.
        let now = Surroundings::read().ok()?;
        let (taken, unfit) = {
            let mut state = self.shelf.lock();
            let chosen = state.choose(plan, now);
            state.demand.launched(chosen.0.is_some(), Instant::now());
            state.plan = Some(plan.clone());
            self.have_maker(&mut state);
            chosen
        };
        drop(unfit);
        taken
    }

    /// Has those made that are wanted, one at least, and returns how many there are. Blocks until they are made, or cannot be.
    pub(crate) fn warm_up(&self, plan: &Plan) -> usize {
        if plan.pid_namespace {
            return 0;
        }
        let mut state = self.shelf.lock();
        state.demand.expected(Instant::now());
        state.fitness = Fitness::default();
        state.plan = Some(plan.clone());
        state.is_urgent = true;
        self.shelf.changed.notify_all();
        let generation = state.generation;
        if !self.have_maker(&mut state) {
            return 0;
        }
        while state.generation == generation && state.ready.len() < state.wanted(Instant::now()) {
            let waited = self.shelf.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.ready.len()
    }

    /// Ends all that there are. The next launch starts the thread that makes more, which inherits what that launch's thread has then.
    pub(crate) fn give_up(&self) {
        if sys::not_forked().is_err() {
            // They are the other process's, and so are their records.
            return;
        }
        let ready = {
            let mut state = self.shelf.lock();
            state.generation += 1;
            state.maker = Maker::None;
            state.plan = None;
            state.fitness = Fitness::default();
            state.is_urgent = false;
            std::mem::take(&mut state.ready)
        };
        self.shelf.changed.notify_all();
        drop(ready);
    }

    /// Starts the thread that makes them, if there is none.
    fn have_maker(&self, state: &mut State) -> bool {
        if state.maker == Maker::None {
            let (shelf, generation) = (Arc::clone(&self.shelf), state.generation);
            let maker = thread::Builder::new().name("mcp-lifecycle-spares".to_owned());
            state.maker = match maker.spawn(move || shelf.make(generation)) {
                Ok(_) => Maker::Runs,
                Err(_) => Maker::Refused,
            };
        }
        state.maker == Maker::Runs
    }
}

/// A start that is under way. Dropped when it is over.
#[derive(Debug)]
pub(crate) struct Launching {
    shelf: Arc<Shelf>,
}

impl Drop for Launching {
    fn drop(&mut self) {
        if sys::not_forked().is_err() {
            return;
        }
        self.shelf.lock().lull.ended(Instant::now());
        self.shelf.changed.notify_all();
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        if sys::not_forked().is_err() {
            // They are the other process's. Nor is the lock taken, which a thread of that
            // process may have held.
            std::mem::forget(Arc::clone(&self.shelf));
            return;
        }
        let ready = {
            let mut state = self.shelf.lock();
            state.is_closed = true;
            std::mem::take(&mut state.ready)
        };
        self.shelf.changed.notify_all();
        drop(ready);
    }
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes spares and gives up those that nobody needs, until the launcher is gone, or all were given up.
    fn make(&self, generation: u64) {
        let is_over = |state: &State| state.is_closed || state.generation != generation;
        let mut state = self.lock();
        while !is_over(&state) {
            let now = Instant::now();
            let wanted = state.wanted(now);
            if state.ready.len() > wanted {
                let surplus = state.ready.split_off(wanted);
                drop(state);
                drop(surplus);
                state = self.lock();
            } else if let Some(plan) = state.next_plan(wanted, now) {
                drop(state);
                let made = Spare::start(&plan);
                state = self.lock();
                state.lull.made(Instant::now());
                match made {
                    Ok(spare) if !is_over(&state) => {
                        state.ready.push(spare);
                        self.changed.notify_all();
                    }
                    Ok(spare) => {
                        drop(state);
                        return drop(spare);
                    }
                    Err(error) => {
                        // The next launch says what is the matter, or that nothing is any more.
                        state.demand.failed();
                        self.changed.notify_all();
                        sys::shielded(|| tracing::debug!(%error, "no spare guardian can be made"));
                    }
                }
            } else {
                let pause = state.until_change(wanted, now);
                let waited = self.changed.wait_timeout(state, pause);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

impl Spare {
    fn start(plan: &Plan) -> io::Result<Self> {
        let surroundings = Surroundings::read()?;
        let identity = identity::new_server()?;
        let record = Record::make(plan, Some(&identity))?;
        let leaf = record.leaf.as_ref().ok();
        if leaf.is_none() && plan.cgroups.is_ok() {
            return Err(io::Error::other("it would have no cgroup"));
        }
        let place = leaf.map(|leaf| leaf.place()).transpose()?;
        let doors = leaf.map(|leaf| leaf.open()).transpose()?;
        let null = File::open("/dev/null")?;
        // Who looks for a server knows its guardian by this.
        let mark = [identity.variable()];
        let request = SpawnRequest {
            env: &mark,
            cgroup_leaf: doors.as_ref().map(|doors| doors.directory.as_fd()),
            cgroup_procs: doors.as_ref().map(|doors| doors.procs.as_fd()),
            cgroup_kill: doors.as_ref().map(|doors| doors.kill.as_fd()),
            record: process::Record {
                cgroup: place
                    .as_ref()
                    .map(|(parent, name)| (parent.as_fd(), name.as_c_str())),
                ..process::Record::default()
            },
            spare: true,
            ..SpawnRequest::nothing(null.as_fd())
        };
        Ok(Self {
            guardian: process::spawn(request).map_err(io::Error::other)?,
            identity,
            record,
            cgroups: plan.cgroups.clone(),
            surroundings,
        })
    }

    /// Returns whether nobody has ended its guardian, stopped it or traces it.
    fn is_ready(&self) -> bool {
        let is_live = |seen: sys::Seen| seen.state == ProcessState::Live;
        !self.guardian.wait_exit(Duration::ZERO)
            && sys::see(self.guardian.pid()).is_some_and(is_live)
    }
}
