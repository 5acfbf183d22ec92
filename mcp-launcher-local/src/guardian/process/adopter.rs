//! To whom the kernel gives what loses its parent below this process.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use super::protocol::{MESSAGE_MAX, Report, Request};
use super::{Received, SpawnRequest, spawn};
use crate::sys::ends_within;

/// Finds the nearest subreaper above this process, or the first process of its PID namespace, by leaving it an orphan. Blocks, about a
/// millisecond.
///
/// # Errors
///
/// No process could be created, or it did not report in time.
pub(crate) fn adopter() -> io::Result<u32> {
    /// It takes a millisecond; the limit is for a machine that is stuck.
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
    // To its end: an orphan that were found alive would be somebody's.
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
    // Its orphan has had another parent since it has ended.
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
