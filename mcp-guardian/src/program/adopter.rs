//! Finds which process inherits our orphans.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use super::protocol::{MESSAGE_MAX, Report, Request};
use super::{Received, SpawnRequest, spawn};
use crate::sys::ends_within;

/// Finds the nearest subreaper above this process, or the first process of its PID namespace, by
/// leaving an orphan. Blocks for about a millisecond.
pub fn adopter() -> io::Result<u32> {
    /// The limit for a machine that is stuck: it takes a millisecond.
    const LIMIT: Duration = Duration::from_secs(2);
    let end = Instant::now() + LIMIT;
    let null = File::open("/dev/null")?;
    let guardian = spawn(SpawnRequest {
        orphan: true,
        ..SpawnRequest::nothing(null.as_fd())
    })
    .map_err(io::Error::other)?;
    guardian.send(Request::Terminate)?;
    let mut buffer = [0; MESSAGE_MAX];
    let mut adopter = None;
    // Waits for the end of the orphan too: a search must not find it and take it for a server's.
    loop {
        match guardian.receive(&mut buffer)? {
            Received::Report(Report::Adopted { by }) => adopter = Some(by),
            Received::Report(_) => {}
            Received::Closed => break,
            Received::Nothing => {
                let left = end.saturating_duration_since(Instant::now());
                if !ends_within(guardian.control(), left)? {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
    }
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
