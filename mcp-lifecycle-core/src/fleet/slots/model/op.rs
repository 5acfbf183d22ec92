//! The operations of the model.

use proptest::prelude::*;

#[derive(Debug, Clone)]
pub(super) enum Op {
    Acquire {
        key: u8,
        exclusive: bool,
        deadline: u64,
    },
    Declare {
        key: u8,
    },
    /// Another process of the same key, after the old one or beside it.
    Reconfigure {
        nth: usize,
        beside: bool,
    },
    CancelWaiter {
        nth: usize,
    },
    Release {
        nth: usize,
        twice: bool,
    },
    StartSucceeds {
        nth: usize,
    },
    StartFails {
        nth: usize,
        proven: bool,
    },
    Crash {
        nth: usize,
        noticed: bool,
    },
    Ended {
        nth: usize,
        proven: bool,
    },
    Busy {
        nth: usize,
        busy: bool,
    },
    Retire {
        nth: usize,
    },
    Tick {
        seconds: u64,
    },
    Shutdown,
}

/// Generates any operation, the common ones more often.
pub(super) fn op() -> impl Strategy<Value = Op> {
    let nth = any::<usize>();
    prop_oneof![
        8 => (0u8..4, any::<bool>(), 0u64..60).prop_map(|(key, exclusive, deadline)| Op::Acquire { key, exclusive, deadline }),
        2 => (4u8..6).prop_map(|key| Op::Declare { key }),
        2 => (nth, any::<bool>()).prop_map(|(nth, beside)| Op::Reconfigure { nth, beside }),
        2 => nth.prop_map(|nth| Op::CancelWaiter { nth }),
        6 => (nth, any::<bool>()).prop_map(|(nth, twice)| Op::Release { nth, twice }),
        8 => nth.prop_map(|nth| Op::StartSucceeds { nth }),
        2 => (nth, any::<bool>()).prop_map(|(nth, proven)| Op::StartFails { nth, proven }),
        3 => (nth, any::<bool>()).prop_map(|(nth, noticed)| Op::Crash { nth, noticed }),
        6 => (nth, prop::bool::weighted(0.8)).prop_map(|(nth, proven)| Op::Ended { nth, proven }),
        1 => (nth, any::<bool>()).prop_map(|(nth, busy)| Op::Busy { nth, busy }),
        1 => nth.prop_map(|nth| Op::Retire { nth }),
        4 => (0u64..40).prop_map(|seconds| Op::Tick { seconds }),
        1 => Just(Op::Shutdown),
    ]
}
