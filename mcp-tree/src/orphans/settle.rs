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
    use proptest::prelude::*;

    use super::*;

    fn unseen() -> String {
        "not visible".to_owned()
    }

    fn leaves() -> impl Strategy<Value = Option<LeafState>> {
        proptest::option::of(prop_oneof![
            Just(LeafState::Gone),
            Just(LeafState::Occupied),
            Just(LeafState::Unseen(unseen())),
        ])
    }

    fn looks() -> impl Strategy<Value = Looked> {
        prop_oneof![
            Just(Looked::Clear),
            Just(Looked::Survivor),
            Just(Looked::Suspect),
            Just(Looked::Unseen(unseen())),
        ]
    }

    proptest! {
        /// No record of a possible orphan is removed on a failed look.
        #[test]
        fn a_ledger_is_removed_only_on_proof(
            servers in proptest::collection::vec(leaves(), 0..5),
            unreadable in 0..2_usize,
            looked in looks(),
        ) {
            let evidence = Evidence { servers, unreadable, looked };
            let nothing = evidence.servers.is_empty() && unreadable == 0;
            let all_gone = unreadable == 0
                && evidence.servers.iter().all(|leaf| *leaf == Some(LeafState::Gone));
            let is_clear = evidence.looked == Looked::Clear
                && evidence.servers.iter().flatten().all(|leaf| *leaf == LeafState::Gone);
            let settled = settle(&evidence) == Settlement::Settled;
            let suspect = evidence.looked == Looked::Suspect;
            prop_assert_eq!(settled, nothing || is_clear || (all_gone && suspect));
        }

        /// An unknown settlement gives the reason.
        #[test]
        fn unknown_has_a_reason(
            servers in proptest::collection::vec(leaves(), 1..5), looked in looks(),
        ) {
            let evidence = Evidence { servers, unreadable: 0, looked };
            if let Settlement::Unknown(why) = settle(&evidence) {
                prop_assert_eq!(why, unseen());
            }
        }
    }
}
