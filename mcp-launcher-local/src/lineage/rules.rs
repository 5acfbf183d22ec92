//! The decisions of a hunt, one function each, so that a wrong one can be put in its place by a test.

use super::{Seen, Witness};

/// The relation of a process to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kin {
    Member,
    Stranger,
    /// Who started it was seen by nobody.
    Unlinked,
}

/// Where the process stands that was sent SIGSTOP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It is the one that was meant, and it cannot leave its number.
    Held,
    /// Somebody else has its number, and has to go on.
    Stranger,
    Gone,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Of a process that is no member yet, by the id of the server and who started it, if that was seen.
    pub(super) kin: fn(&Seen, u64, Option<Kin>) -> Kin,
    /// Whether an unlinked process is a member by what it carries, and by who has its number after that was read.
    pub(super) is_vouched: fn(&Seen, Witness, Option<&Seen>) -> bool,
    /// Whether this number still means that process, and it can be sent something.
    pub(super) is_same: fn(&Seen, Option<&Seen>) -> bool,
    pub(super) after_stop: fn(&Seen, Option<&Seen>) -> Stopped,
    /// Whether nobody can have been missed: so many were not known before or still run, and the look was whole.
    pub(super) is_settled: fn(usize, bool) -> bool,
    /// Whether a member that a look has not found is forgotten: it was dead before that look, which was whole.
    pub(super) may_forget: fn(bool, bool) -> bool,
}

pub(super) const RULES: Rules = Rules {
    kin,
    is_vouched,
    is_same,
    after_stop,
    is_settled: |new, is_whole| new == 0 && is_whole,
    may_forget: |was_dead, is_whole| was_dead && is_whole,
};

fn kin(process: &Seen, server: u64, starter: Option<Kin>) -> Kin {
    match starter {
        Some(Kin::Member) => Kin::Member,
        // Older than the server: nobody who is can have been started by a member.
        _ if process.unique <= server || process.started_by < server => Kin::Stranger,
        Some(Kin::Stranger) => Kin::Stranger,
        Some(Kin::Unlinked) | None => Kin::Unlinked,
    }
}

fn is_vouched(process: &Seen, witness: Witness, after: Option<&Seen>) -> bool {
    witness == Witness::Ours && is_same(process, after)
}

fn is_same(process: &Seen, now: Option<&Seen>) -> bool {
    now.is_some_and(|now| now.unique == process.unique && !now.is_zombie)
}

fn after_stop(process: &Seen, now: Option<&Seen>) -> Stopped {
    match now {
        None => Stopped::Gone,
        Some(now) if now.unique != process.unique => Stopped::Stranger,
        Some(now) if now.is_zombie => Stopped::Gone,
        Some(_) => Stopped::Held,
    }
}
