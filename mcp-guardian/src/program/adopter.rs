//! Finds which process inherits our orphans.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use super::protocol::{Report, Request};
use super::{Received, SpawnRequest, spawn};

/// Finds the nearest subreaper above this process, or the first process of its PID namespace, by
/// leaving an orphan. Blocks for about a millisecond.
pub fn adopter() -> io::Result<u32> {
    /// The limit for a machine that is stuck: it takes a millisecond.
    const LIMIT: Duration = Duration::from_secs(2);
    let null = File::open("/dev/null")?;
    let guardian = spawn(SpawnRequest {
        orphan: true,
        ..SpawnRequest::nothing(null.as_fd())
    })
    .map_err(io::Error::other)?;
    guardian.send(Request::Terminate)?;
    let mut adopter = None;
    // Waits for the end of the orphan too: a search must not find it and take it for a server's.
    let closed = guardian.wait_for(LIMIT, |received| {
        if let Received::Report(Report::Adopted { by }) = received {
            adopter = Some(by);
        }
        (received == Received::Closed).then_some(())
    });
    closed.ok_or(io::ErrorKind::TimedOut)?;
    // The guardian only: the orphan belongs to its new parent.
    let _ = guardian.try_reap();
    adopter.ok_or_else(|| io::Error::other("the orphan was killed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orphan_is_given_to_somebody_above() {
        let adopter = adopter().unwrap();
        let mut above = std::process::id();
        while above != adopter {
            let stat = crate::sys::see(above).expect("to be found on the way up");
            above = stat.parent.max(1);
        }
    }
}
