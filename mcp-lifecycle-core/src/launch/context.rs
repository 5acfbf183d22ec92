//! [`LaunchContext`]: what a launch is told besides what to start.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
use tracing::Span;

#[cfg(feature = "client")]
use super::starting::Starting;

/// The caller's side of a launch: deadline, progress, span. More may be added to it.
#[derive(Clone)]
pub struct LaunchContext {
    deadline: Option<Instant>,
    progress: Option<Arc<Tell>>,
    span: Span,
    #[cfg(feature = "client")]
    start: Option<Starting>,
}

type Tell = dyn Fn(&LaunchProgress) + Send + Sync;

impl LaunchContext {
    /// No deadline, no interest in progress, and the current span.
    pub fn new() -> Self {
        Self {
            deadline: None,
            progress: None,
            span: Span::current(),
            #[cfg(feature = "client")]
            start: None,
        }
    }

    /// Sets when the caller drops the launch.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets what is called with each step of a long launch. Be quick, do not block.
    #[must_use]
    pub fn with_progress(
        mut self,
        progress: impl Fn(&LaunchProgress) + Send + Sync + 'static,
    ) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Sets the span that the launch belongs to.
    #[must_use]
    pub fn with_span(mut self, span: Span) -> Self {
        self.span = span;
        self
    }

    /// Makes the launch a part of a start.
    #[cfg(feature = "client")]
    #[must_use]
    pub(crate) fn with_start(mut self, start: &Starting) -> Self {
        self.start = Some(start.clone());
        self
    }

    /// Keeps `guard` until the start that this launch is a part of is over: the server is ready for calls, or the start
    /// has failed or was given up. By its drop, which must not block, a launcher hears of that: what it does for later
    /// launches need not compete with the server's first steps.
    ///
    /// Drops it at once where there is no such start: the caller launches by itself.
    pub fn keep_until_ready(&self, guard: impl Send + 'static) {
        #[cfg(feature = "client")]
        if let Some(start) = &self.start {
            return start.keep(Box::new(guard));
        }
        drop(guard);
    }

    /// The time when the caller drops the launch. A launcher may pass it on to another machine;
    /// it enforces nothing by itself.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The span that tasks of the launch's own belong to.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Tells the caller of a step, if it wants to know.
    pub fn report(&self, progress: &LaunchProgress) {
        if let Some(tell) = &self.progress {
            tell(progress);
        }
    }
}

impl Default for LaunchContext {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LaunchContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchContext")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// One step of a long launch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchProgress {
    /// The activity, for people: `"pulling alpine:3, layer 1f3e"`.
    pub what: String,
    /// The part that is done, in bytes.
    pub done: Option<u64>,
    /// The whole, in bytes.
    pub total: Option<u64>,
}

impl LaunchProgress {
    /// A step of unknown size.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            done: None,
            total: None,
        }
    }

    /// Sets how much of the step is done, and how much there is to do, in bytes.
    #[must_use]
    pub fn with_bytes(mut self, done: Option<u64>, total: Option<u64>) -> Self {
        (self.done, self.total) = (done, total);
        self
    }
}

impl fmt::Display for LaunchProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match (self.done, self.total) {
            (Some(done), Some(total)) => write!(f, " ({done} of {total} bytes)"),
            (Some(done), None) => write!(f, " ({done} bytes)"),
            (None, _) => Ok(()),
        }
    }
}
