//! Statements of a host on its servers, checked when it makes them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_lifecycle_conformance::alive::AliveListener;

use crate::ended::suspects_in;
use crate::judge::{self, Level};
use crate::servers::Server;
use crate::stage::overdue;

/// Failures that were allowed to happen, counted, so that they are not forgotten.
#[derive(Debug, Default)]
pub(crate) struct Excused {
    pub(crate) launches: u64,
    pub(crate) proofs: u64,
    pub(crate) unproven: u64,
    pub(crate) kept_back: u64,
    pub(crate) refused: u64,
    /// Guardians that were stopped behind their last order.
    pub(crate) continued: u64,
    pub(crate) orphans: u64,
    pub(crate) out_of_reach: u64,
}

impl Excused {
    fn numbers(&mut self) -> [&mut u64; 8] {
        [
            &mut self.launches,
            &mut self.proofs,
            &mut self.unproven,
            &mut self.kept_back,
            &mut self.refused,
            &mut self.continued,
            &mut self.orphans,
            &mut self.out_of_reach,
        ]
    }

    /// For the process that adds them up.
    pub(crate) fn encode(mut self) -> String {
        self.numbers().map(|number| number.to_string()).join(" ")
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut excused = Self::default();
        for number in excused.numbers() {
            *number = words.next()?.parse().ok()?;
        }
        words.next().is_none().then_some(excused)
    }

    pub(crate) fn add(&mut self, mut more: Self) {
        for (sum, more) in self.numbers().into_iter().zip(more.numbers()) {
            *sum += *more;
        }
    }
}

impl fmt::Display for Excused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} servers launched, {} proofs, all right; as documented: {} ends without proof, {} \
             proofs kept back by strangers, {} starts refused, {} guardians stopped for good, {} processes found by the next host, {} out of everybody's reach",
            self.launches,
            self.proofs,
            self.unproven,
            self.kept_back,
            self.refused,
            self.continued,
            self.orphans,
            self.out_of_reach,
        )
    }
}

/// Statements of a host on one server, checked when it made them.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) level: Option<Level>,
    pub(crate) started: bool,
    pub(crate) refused: Option<String>,
    pub(crate) proven: bool,
    pub(crate) unproven: Option<String>,
    /// It is the end of a start that failed.
    pub(crate) unproven_start: bool,
    /// Also when it was asked for once more.
    pub(crate) unproven_again: bool,
    /// Strangers who keep the proof back: in PID namespaces of their own, which the host
    /// cannot tell from what its server may have left there.
    pub(crate) kept_back_by: Vec<u32>,
    /// How often.
    pub(crate) kept_back: u64,
    /// A start that failed, and whose end they keep back: nobody can ask for it again.
    pub(crate) kept_back_start: Option<String>,
    /// The processes that lived in spite of a proof.
    pub(crate) lies: Vec<String>,
    /// How many had connected when the proof was given.
    pub(crate) connections: Option<usize>,
    /// The longest that an end took.
    pub(crate) took: Duration,
}

/// By the number of the server.
pub(crate) type Book = Arc<Mutex<BTreeMap<usize, Told>>>;

/// On the thread that hears the host: what it says of a server.
pub(crate) fn take_down(
    book: &Book,
    observers: &[AliveListener],
    servers: &[Server],
    by_group: bool,
    is_stranger: impl Fn(&u32) -> bool,
    line: &str,
) {
    let mut words = line.splitn(3, ' ');
    let (Some(what), Some(index)) = (words.next(), words.next()) else {
        return;
    };
    let rest = words.next().unwrap_or_default();
    let Some((index, server)) = index.parse().ok().and_then(|index: usize| {
        let server = servers.get(index)?;
        Some((index, server))
    }) else {
        return;
    };
    let level = {
        let book = book.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown = if by_group {
            Level::Group
        } else {
            Level::Guardian
        };
        let told = book.get(&index).and_then(|told: &Told| told.level);
        told.unwrap_or(unknown)
    };
    // A proof is checked at once, before anything else is done.
    let mut checked = None;
    if matches!(what, "proof" | "refused") {
        let observer = &observers[index];
        let covered = |role: &str| judge::is_covered(level, server.held(role, false));
        let alive = overdue(observer, level == Level::Group, covered);
        let lies = match alive {
            Ok(alive) => alive.iter().map(|one| one.holder().to_string()).collect(),
            Err(failure) => vec![failure],
        };
        checked = Some((lies, observer.connections().len()));
    }
    let suspects = suspects_in(rest);
    let by_strangers = !suspects.is_empty() && suspects.iter().all(is_stranger);
    let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
    let told = book.entry(index).or_default();
    told.kept_back_by.clear();
    if let Some((lies, connections)) = checked {
        told.lies.extend(lies);
        // Within a group, others may go on starting each other.
        told.connections = (!matches!(level, Level::Group)).then_some(connections);
    }
    let took = rest.split(' ').next().and_then(|took| took.parse().ok());
    match what {
        "started" => {
            told.started = true;
            told.level = Some(Level::named(rest));
        }
        "refused" | "cut-short" => told.refused = Some(rest.to_owned()),
        "unproven-start" if by_strangers => told.kept_back_start = Some(rest.to_owned()),
        "unproven-start" => {
            told.unproven_start = true;
            told.unproven = Some(rest.to_owned());
        }
        "proof" => {
            told.proven = true;
            told.took = told.took.max(Duration::from_millis(took.unwrap_or(0)));
        }
        "unproven" if by_strangers => {
            told.kept_back += 1;
            told.kept_back_by = suspects;
            told.took = told.took.max(Duration::from_millis(took.unwrap_or(0)));
        }
        "unproven" => {
            told.unproven_again = told.unproven.is_some();
            told.unproven = Some(rest.to_owned());
            told.took = told.took.max(Duration::from_millis(took.unwrap_or(0)));
        }
        _ => {}
    }
}
