use std::fmt;
use std::sync::Arc;

use crate::launch::macros::debug_fields;
use tokio::time::Instant;

/// The caller's side of a launch: deadline and progress. Extensible.
#[derive(Clone, Default)]
pub struct LaunchContext {
    deadline: Option<Instant>,
    progress: Option<Arc<Tell>>,
}

type Tell = dyn Fn(&LaunchProgress) + Send + Sync;

crate::setters! { LaunchContext:
    /// Sets the time at which the caller drops the launch.
    #[must_use]
    with_deadline(deadline: Instant) |it| it.deadline = Some(deadline);
    /// Sets the callback for each step of a long launch. It must be quick and not block.
    #[must_use]
    with_progress(progress: impl Fn(&LaunchProgress) + Send + Sync + 'static) |it| {
        it.progress = Some(Arc::new(progress));
    };
}

impl LaunchContext {
    /// Creates a context with no deadline and no progress callback.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the time at which the caller drops the launch, which a launcher does not enforce.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Reports a step to the caller.
    pub fn report(&self, progress: &LaunchProgress) {
        if let Some(tell) = &self.progress {
            tell(progress);
        }
    }
}

debug_fields!(
    LaunchContext,
    it {
        deadline: &it.deadline
    }
);

/// One step of a long launch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchProgress {
    /// Description of the step, for people: `"pulling alpine:3, layer 1f3e"`.
    pub what: String,
    /// Bytes done.
    pub done: Option<u64>,
    /// Bytes in total.
    pub total: Option<u64>,
}

impl LaunchProgress {
    /// Creates a step of unknown size.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            done: None,
            total: None,
        }
    }

    /// Sets the bytes done and the bytes in total.
    #[must_use]
    pub fn bytes(mut self, done: Option<u64>, total: Option<u64>) -> Self {
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
