//! How a pull goes.

use crate::engine::PullEvent;

/// One step of a pull, as the engine tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PullProgress {
    /// The server whose launch started the pull.
    pub server: String,
    /// The image.
    pub image: String,
    /// The layer it is about, if it is about one.
    pub layer: Option<String>,
    /// What happens, in the engine's words.
    pub status: String,
    /// How many bytes of this step are done.
    pub current: Option<u64>,
    /// How many bytes this step has.
    pub total: Option<u64>,
}

impl PullProgress {
    pub(crate) fn new(server: &str, image: &str, event: PullEvent) -> Self {
        Self {
            server: server.to_owned(),
            image: image.to_owned(),
            layer: event.layer,
            status: event.status,
            current: event.current,
            total: event.total,
        }
    }
}

/// Is told how pulls go.
///
/// Called from the thread that owns all containers: be quick, do not block, do
/// not panic.
pub trait PullObserver: Send + Sync + 'static {
    /// A pull has come further.
    fn on_progress(&self, progress: &PullProgress);
}

/// Tells nobody.
impl PullObserver for () {
    fn on_progress(&self, _: &PullProgress) {}
}
