//! Decides whether the ledger of a dead host can be removed. Pure.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeafState {
    Gone,
    /// It has, or may have, members.
    Occupied,
    Unseen(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Looked {
    /// Every process that could be its servers' was examined, and none is.
    Clear,
    /// A process with its mark, or a recorded one, lives. It is in the report.
    Survivor,
    /// A process that may be one could not be examined. It is in the report.
    Suspect,
    Unseen(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Evidence {
    /// The cgroup of each recorded server; `None` for one without.
    pub(super) servers: Vec<Option<LeafState>>,
    /// The number of unreadable lines of the ledger.
    pub(super) unreadable: usize,
    pub(super) looked: Looked,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Settlement {
    /// Nothing of its servers is left: it is removed.
    Settled,
    /// It is kept; the report names the processes that are the reason.
    Kept,
    /// It is kept, because this could not be examined.
    Unknown(String),
}

/// Decides. A ledger is removed only if no server was recorded, or processes were examined and none
/// is a server's; where that is unproven, only if each server's cgroup is gone.
pub(super) fn settle(evidence: &Evidence) -> Settlement {
    let Evidence {
        servers,
        unreadable,
        looked,
    } = evidence;
    if servers.is_empty() && *unreadable == 0 {
        return Settlement::Settled;
    }
    if *looked == Looked::Survivor || servers.contains(&Some(LeafState::Occupied)) {
        return Settlement::Kept;
    }
    let unseen = servers.iter().flatten().find_map(|leaf| match leaf {
        LeafState::Unseen(why) => Some(why),
        LeafState::Gone | LeafState::Occupied => None,
    });
    if let Some(why) = unseen {
        return Settlement::Unknown(why.clone());
    }
    let by_cgroups = *unreadable == 0 && servers.iter().all(Option::is_some);
    match looked {
        // A process that has left its cgroup and hides its mark cannot be found.
        Looked::Suspect if by_cgroups => Settlement::Settled,
        Looked::Clear => Settlement::Settled,
        Looked::Survivor | Looked::Suspect => Settlement::Kept,
        Looked::Unseen(why) => Settlement::Unknown(why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unseen() -> String {
        "not visible".to_owned()
    }

    /// Returns all evidence about up to three servers.
    fn all() -> impl Iterator<Item = Evidence> {
        let looks = [
            Looked::Clear,
            Looked::Survivor,
            Looked::Suspect,
            Looked::Unseen("not examined".to_owned()),
        ];
        let leaf = |nth| match nth {
            0 => None,
            1 => Some(LeafState::Gone),
            2 => Some(LeafState::Occupied),
            _ => Some(LeafState::Unseen(unseen())),
        };
        let servers = (0..=3).flat_map(move |count| {
            let nths = 0..4_usize.pow(count);
            nths.map(move |nth| (0..count).map(|at| leaf(nth >> (2 * at) & 3)).collect())
        });
        servers.flat_map(move |servers: Vec<_>| {
            let looks = looks.clone().into_iter();
            looks.flat_map(move |looked| {
                [0, 1, 2].map(|unreadable| Evidence {
                    servers: servers.clone(),
                    unreadable,
                    looked: looked.clone(),
                })
            })
        })
    }

    /// No record of a possible orphan is removed on a failed look, and no failed look is hidden.
    #[test]
    fn a_ledger_is_removed_only_on_proof() {
        let mut number = 0;
        for evidence in all() {
            number += 1;
            let Evidence {
                servers,
                unreadable,
                looked,
            } = &evidence;
            let has = |leaf| servers.contains(&Some(leaf));
            let is_recorded = *unreadable > 0 || !servers.is_empty();
            let all_gone =
                *unreadable == 0 && servers.iter().all(|it| *it == Some(LeafState::Gone));
            let expected = match looked {
                _ if !is_recorded => Settlement::Settled,
                Looked::Survivor => Settlement::Kept,
                _ if has(LeafState::Occupied) => Settlement::Kept,
                _ if has(LeafState::Unseen(unseen())) => Settlement::Unknown(unseen()),
                Looked::Clear => Settlement::Settled,
                Looked::Suspect if all_gone => Settlement::Settled,
                Looked::Suspect => Settlement::Kept,
                Looked::Unseen(why) => Settlement::Unknown(why.clone()),
            };
            assert_eq!(settle(&evidence), expected, "{evidence:?}");
        }
        println!("{number} kinds of evidence about ledgers");
    }
}
