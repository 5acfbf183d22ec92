//! The progress of a pull.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use mcp_lifecycle_core::launch::{LaunchContext, LaunchProgress};
use tracing::warn;

use crate::engine::{Progress, PullEvent};

/// So many steps wait for an observer that is slow.
const WAITING: usize = 256;

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
    /// The step, in the engine's words.
    pub status: String,
    /// The number of bytes of this step that are done.
    pub current: Option<u64>,
    /// The number of bytes that this step has.
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

/// Observes pulls.
///
/// Called from a thread of each launch's own, which begins with its first step. It
/// may be slow: steps that find 256 others waiting are left out. One that panics is
/// told nothing more of that launch. A closure is one.
pub trait PullObserver: Send + Sync + 'static {
    /// A pull has come further.
    fn on_progress(&self, progress: &PullProgress);
}

/// Tells nobody.
impl PullObserver for () {
    fn on_progress(&self, _: &PullProgress) {}
}

impl<F: Fn(&PullProgress) + Send + Sync + 'static> PullObserver for F {
    fn on_progress(&self, progress: &PullProgress) {
        self(progress);
    }
}

/// Tells `observer` and the caller of the launch without waiting for them: the thread
/// that owns all containers does not run what the application wrote.
pub(crate) fn beside(
    observer: Arc<dyn PullObserver>,
    context: LaunchContext,
    server: &str,
) -> Progress {
    let observer = Both(observer, context);
    let server = server.to_owned();
    let sender = OnceLock::new();
    Arc::new(move |image: &str, event: PullEvent| {
        let progress = PullProgress::new(&server, image, event);
        let sender = sender.get_or_init(|| tell(observer.clone()));
        if let Some(sender) = sender {
            // Full, or nobody listens any more.
            let _ = sender.try_send(progress);
        }
    })
}

/// Those that are told of a pull: the observer, and the caller of the launch.
#[derive(Clone)]
struct Both(Arc<dyn PullObserver>, LaunchContext);

impl Both {
    fn tell(&self, step: &PullProgress) {
        let what = match &step.layer {
            Some(layer) => format!("{}: layer {layer}: {}", step.image, step.status),
            None => format!("{}: {}", step.image, step.status),
        };
        self.1
            .report(&LaunchProgress::new(what).with_bytes(step.current, step.total));
        self.0.on_progress(step);
    }
}

/// Ends with the sender.
fn tell(observer: Both) -> Option<SyncSender<PullProgress>> {
    let (sender, steps) = sync_channel::<PullProgress>(WAITING);
    let thread = thread::Builder::new()
        .name("mcp-docker-pull".to_owned())
        .spawn(move || steps.iter().for_each(|step| observer.tell(&step)));
    match thread {
        Ok(_) => Some(sender),
        Err(error) => {
            warn!(%error, "nobody is told how pulls go");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_observer_that_hangs_or_panics_delays_nobody() {
        let (entered, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = std::sync::Mutex::new(released);
        let hangs = move |progress: &PullProgress| {
            entered.send(progress.server.clone()).unwrap();
            released.lock().unwrap().recv().unwrap();
        };
        let progress = beside(Arc::new(hangs), LaunchContext::new(), "s");
        for _ in 0..WAITING * 2 {
            progress("i", PullEvent::default());
        }
        assert_eq!(begun.recv_timeout(Duration::from_secs(20)).unwrap(), "s");
        drop(release);
        let panics = beside(
            Arc::new(|_: &PullProgress| panic!("an observer")),
            LaunchContext::new(),
            "s",
        );
        for _ in 0..3 {
            panics("i", PullEvent::default());
        }
    }
}
