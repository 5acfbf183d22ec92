//! The decision whether a dead host's ledger has served its purpose. Pure.

/// What was found out about one server's cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeafState {
    /// It is gone, and whoever was inside.
    Gone,
    /// Somebody is, or may be, inside.
    Occupied,
    /// It cannot be told, for this reason.
    Unseen(String),
}

/// What was found out by looking at processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Looked {
    /// All of those that could be its servers' were seen, and none is one.
    Nobody,
    /// Somebody who carries its mark, or is on record, lives. Has been reported.
    Survivor,
    /// Somebody could not be seen who may be one. Has been reported.
    Suspect,
    /// Not all could be looked at, for this reason.
    Unseen(String),
}

/// All that is known about what a dead host left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Evidence {
    /// One for each server on record; `None` for one without a cgroup.
    pub(super) servers: Vec<Option<LeafState>>,
    /// Lines of the ledger that could not be read.
    pub(super) unreadable: usize,
    pub(super) looked: Looked,
}

/// What becomes of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Settlement {
    /// Nothing of its servers is left: it goes.
    Settled,
    /// It stays; the report names whoever is the reason.
    Kept,
    /// It stays, since this could not be looked at.
    Unknown(String),
}

/// Decides. A ledger goes only if nothing was on record, or processes were looked
/// at and none is its; and, where one is in doubt, each server's cgroup is gone.
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
        // Who has left its cgroup and hides whose it is, is found by nobody.
        Looked::Suspect if by_cgroups => Settlement::Settled,
        Looked::Nobody => Settlement::Settled,
        Looked::Survivor | Looked::Suspect => Settlement::Kept,
        Looked::Unseen(why) => Settlement::Unknown(why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unseen() -> String {
        "no sight".to_owned()
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
            Just(Looked::Nobody),
            Just(Looked::Survivor),
            Just(Looked::Suspect),
            Just(Looked::Unseen(unseen())),
        ]
    }

    proptest! {
        /// No record of a possible orphan goes on a failed look.
        #[test]
        fn a_ledger_goes_only_by_proof(
            servers in proptest::collection::vec(leaves(), 0..5),
            unreadable in 0..2_usize,
            looked in looks(),
        ) {
            let evidence = Evidence { servers, unreadable, looked };
            let nothing = evidence.servers.is_empty() && unreadable == 0;
            let all_gone = unreadable == 0
                && evidence.servers.iter().all(|leaf| *leaf == Some(LeafState::Gone));
            let nobody = evidence.looked == Looked::Nobody
                && evidence.servers.iter().flatten().all(|leaf| *leaf == LeafState::Gone);
            let settled = settle(&evidence) == Settlement::Settled;
            let suspect = evidence.looked == Looked::Suspect;
            prop_assert_eq!(settled, nothing || nobody || (all_gone && suspect));
        }

        /// Cases that cannot be told are unknown, with the reason.
        #[test]
        fn what_is_unknown_has_a_reason(
            servers in proptest::collection::vec(leaves(), 1..5), looked in looks(),
        ) {
            let evidence = Evidence { servers, unreadable: 0, looked };
            if let Settlement::Unknown(why) = settle(&evidence) {
                prop_assert_eq!(why, unseen());
            }
        }
    }
}
