//! Proof of life and death, by connections that the observed processes hold.
//!
//! A pid proves nothing: it may be reused, it may be a zombie's, it says
//! nothing about descendants. A connection does. Every process of the fixture
//! connects to an [`AliveListener`] as its very first act, holds the
//! connection for life and passes it on to its children, so
//!
//! * **end of file proves that every holder is dead**, and
//! * an answered [`ping`](AliveConn::ping) proves that the process lives.
//!
//! The observer runs in a thread of its own. It does not depend on the runtime
//! of the test, which may be none at all ([`AliveListener::block_on`]) or one
//! that the test is about to drop.

mod conn;
mod listener;
mod stream;

use std::time::Duration;
use std::{fmt, io};

use thiserror::Error;

pub use conn::AliveConn;
pub use listener::AliveListener;

/// An observation that was not made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AliveError {
    /// The event that was waited for did not happen in time.
    #[error("{what} did not happen within {limit:?}; connected: {}", List(.connected))]
    TimedOut {
        /// The event that was waited for.
        what: String,
        /// For how long.
        limit: Duration,
        /// The processes that were connected when the time was up.
        connected: Vec<Holder>,
    },
    /// The process died while something was expected of it.
    #[error("{holder} is dead, and {what} was expected of it")]
    Dead {
        /// The process that died.
        holder: Holder,
        /// The event that was expected.
        what: String,
    },
    /// Somebody outlived the deadline.
    #[error("{} still alive after {limit:?}: {}", .survivors.len(), List(.survivors))]
    Survivors {
        /// The survivors.
        survivors: Vec<Holder>,
        /// The time they had.
        limit: Duration,
    },
    /// The observer itself failed.
    #[error("the observer failed: {0}")]
    Io(#[from] io::Error),
}

/// The process that opened a connection. Children that inherited it hold it as well.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The role that it said hello with; empty before it did.
    pub role: String,
    /// Its pid, in its own pid namespace: for people, not for `kill`.
    pub pid: u32,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.role.is_empty() {
            return f.write_str("a process that has not said hello");
        }
        write!(f, "{} (pid {})", self.role, self.pid)
    }
}

/// Holders as one line of text.
struct List<'a>(&'a [Holder]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Enough to see the pattern; a burst has hundreds.
        const SHOWN: usize = 12;
        if self.0.is_empty() {
            return f.write_str("nobody");
        }
        for (i, holder) in self.0.iter().take(SHOWN).enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{holder}")?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
