//! Whether a host has died. Pure.

use std::io;

use super::Fact;
use crate::identity::HostId;

/// The state of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// It stays so.
    Dead,
    Alive,
    /// It cannot be told, for this reason.
    Unknown(String),
}

/// The state of a host of this boot: by who has its number now, and by the id of the oldest process that carries its mark.
///
/// A process that has the number and is younger than a server of the host cannot be the host: ids are given out in order.
/// It has started at another time, too; where one of the two does not say so, there is doubt.
pub(super) fn state(host: &HostId, holder: &io::Result<Option<Fact>>, oldest: u64) -> State {
    let holder = match holder {
        Ok(None) => return State::Dead,
        Ok(Some(holder)) => holder,
        Err(error) => return State::Unknown(format!("its host cannot be asked for: {error}")),
    };
    // Whoever it was has ended: the number is nobody else's as long as it is there.
    if holder.seen.is_zombie {
        return State::Dead;
    }
    let is_younger = holder.seen.unique > oldest;
    match holder.start_time == host.start_time() {
        true => State::Alive,
        false if is_younger => State::Dead,
        false => State::Unknown(format!(
            "whoever has the number of its host, {}, is not younger than it is",
            host.pid()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::Seen;
    use crate::sys::Pid;

    const BOOT: &str = "01234567-89ab-cdef-0123-456789abcdef";

    fn holder(unique: u64, start_time: u64, is_zombie: bool) -> io::Result<Option<Fact>> {
        let seen = Seen {
            pid: Pid::new(42).unwrap(),
            unique,
            started_by: 1,
            group: 42,
            is_zombie,
        };
        Ok(Some(Fact {
            seen,
            parent: 1,
            start_time,
            is_own: start_time != 0,
            name: String::new(),
        }))
    }

    #[test]
    fn a_host_is_dead_only_where_nothing_speaks_against_it() {
        let host = HostId::new(42, 1000, BOOT, 7).unwrap();
        let state = |holder| state(&host, &holder, 50);
        assert_eq!(state(Ok(None)), State::Dead);
        assert_eq!(state(holder(10, 1000, false)), State::Alive);
        assert_eq!(state(holder(10, 1000, true)), State::Dead);
        // Another one has its number.
        assert_eq!(state(holder(60, 2000, false)), State::Dead);
        // Another user's, which does not tell when it started.
        assert_eq!(state(holder(60, 0, false)), State::Dead);
        assert!(matches!(state(holder(10, 0, false)), State::Unknown(_)));
        // One witness against the other.
        assert_eq!(state(holder(60, 1000, false)), State::Alive);
        assert!(matches!(state(holder(10, 2000, false)), State::Unknown(_)));
        let refused = Err(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(matches!(state(refused), State::Unknown(_)));
    }
}
