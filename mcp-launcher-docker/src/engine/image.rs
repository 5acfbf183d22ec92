//! Pulls: one per image at a time, with a deadline of their own.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::models::{CreateImageInfo, ImageInspect};
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::time::timeout;

use super::credentials;
use super::quiet::quietly;
use super::{ANSWER_LIMIT, Engine, EngineError, SLOW_ANSWER_LIMIT};
use crate::control;

/// One step of a pull.
#[derive(Debug, Clone, Default)]
pub(crate) struct PullEvent {
    pub(crate) layer: Option<String>,
    pub(crate) status: String,
    pub(crate) current: Option<u64>,
    pub(crate) total: Option<u64>,
}

/// The facts that an image states about its containers.
#[derive(Debug, Clone, Default)]
pub(crate) struct ImageFacts {
    pub(crate) id: String,
    pub(crate) entrypoint: Option<Vec<String>>,
    pub(crate) cmd: Option<Vec<String>>,
    /// In the engine's words: `amd64`, `arm64`.
    pub(crate) architecture: Option<String>,
    /// Every container of it has them, unless it has others.
    pub(crate) labels: HashMap<String, String>,
}

/// Is told the image and the step.
pub(crate) type Progress = Arc<dyn Fn(&str, PullEvent) + Send + Sync>;

/// One pull.
#[derive(Clone)]
pub(crate) struct Pull {
    pub(crate) image: String,
    pub(crate) platform: Option<String>,
    pub(crate) limit: Duration,
    /// Gives the engine the credentials that the user has stored for the registry.
    pub(crate) credentials: bool,
    pub(crate) progress: Progress,
}

impl Pull {
    fn key(&self) -> String {
        format!(
            "{} {}",
            self.image,
            self.platform.as_deref().unwrap_or_default()
        )
    }
}

type Pulled = Result<(), Arc<EngineError>>;

/// The pulls that are under way, by image.
#[derive(Default)]
pub(crate) struct Pulls {
    running: Mutex<HashMap<String, watch::Receiver<Option<Pulled>>>>,
}

impl fmt::Debug for Pulls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulls").finish_non_exhaustive()
    }
}

/// A pull's entry among those that are under way.
///
/// # Drop
///
/// Removes it: also when an observer panics, or nobody could ever pull that
/// image again.
struct Entry {
    engine: Arc<Engine>,
    key: String,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let running = &self.engine.pulls.running;
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.key);
    }
}

impl Engine {
    pub(crate) async fn has_image(&self, image: &str) -> Result<bool, EngineError> {
        match self.inspect_image(image).await {
            Ok(_) => Ok(true),
            Err(EngineError::Absent(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn inspect_image(&self, image: &str) -> Result<ImageInspect, EngineError> {
        let docker = self.docker(ANSWER_LIMIT).await?;
        self.ask(ANSWER_LIMIT, || docker.inspect_image(image)).await
    }

    pub(crate) async fn image_facts(&self, image: &str) -> Result<ImageFacts, EngineError> {
        let answer = self.inspect_image(image).await?;
        let config = answer.config.unwrap_or_default();
        Ok(ImageFacts {
            id: answer.id.unwrap_or_default(),
            entrypoint: config.entrypoint,
            cmd: config.cmd,
            architecture: answer.architecture,
            labels: config.labels.unwrap_or_default(),
        })
    }

    /// Pulls, or joins the pull of the same image that is under way. It goes
    /// on when the caller is cancelled: the next one finds it further along.
    pub(crate) async fn pull(self: &Arc<Self>, pull: Pull) -> Pulled {
        let mut outcome = self.join_or_start(pull)?;
        let done = outcome.wait_for(Option::is_some).await;
        match done.map(|outcome| outcome.clone()) {
            Ok(Some(outcome)) => outcome,
            Ok(None) | Err(_) => Err(Arc::new(EngineError::Cancelled)),
        }
    }

    fn join_or_start(
        self: &Arc<Self>,
        pull: Pull,
    ) -> Result<watch::Receiver<Option<Pulled>>, Arc<EngineError>> {
        let key = pull.key();
        let running = &self.pulls.running;
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outcome) = running.get(&key) {
            return Ok(outcome.clone());
        }
        let (sender, receiver) = watch::channel(None);
        let engine = Arc::clone(self);
        let task = control::spawn({
            let key = key.clone();
            async move {
                // Within the task: outside of it the lock is held.
                let entry = Entry {
                    engine: Arc::clone(&engine),
                    key,
                };
                let outcome = match timeout(pull.limit, engine.pull_once(&pull)).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(EngineError::PullTimeout {
                        image: pull.image,
                        limit: pull.limit,
                    }),
                };
                drop(entry);
                sender.send_replace(Some(outcome.map_err(Arc::new)));
            }
        });
        // The task removes it, and has to wait for the lock to do so.
        task.map_err(|error| Arc::new(EngineError::from(error)))?;
        running.insert(key, receiver.clone());
        Ok(receiver)
    }

    async fn pull_once(&self, pull: &Pull) -> Result<(), EngineError> {
        let image = &pull.image;
        // Without a tag the daemon would pull every tag there is.
        let (name, tag) = split_tag(image);
        let mut options = CreateImageOptionsBuilder::default()
            .from_image(name)
            .tag(tag);
        if let Some(platform) = &pull.platform {
            options = options.platform(platform);
        }
        let stored = match pull.credentials {
            // The rest is the engine's.
            true => credentials::of(image, pull.limit / 2).await?,
            false => credentials::Stored::default(),
        };
        let failed = |message: String| EngineError::Pull {
            image: image.clone(),
            message: [message]
                .into_iter()
                .chain(stored.unread.clone())
                .collect::<Vec<_>>()
                .join("; "),
        };
        let docker = credentials::readable(self.docker(SLOW_ANSWER_LIMIT).await?);
        let mut steps = docker.create_image(Some(options.build()), None, stored.credentials);
        while let Some(step) = quietly(steps.next()).await {
            let step = step.map_err(|error| failed(error.to_string()))?;
            if let Some(error) = step.error_detail {
                return Err(failed(error.message.unwrap_or_default()));
            }
            (pull.progress)(image, event(step));
        }
        Ok(())
    }
}

fn event(step: CreateImageInfo) -> PullEvent {
    let number = |n: i64| u64::try_from(n).ok();
    let detail = step.progress_detail.unwrap_or_default();
    PullEvent {
        layer: step.id,
        status: step.status.unwrap_or_default(),
        current: detail.current.and_then(number),
        total: detail.total.and_then(number),
    }
}

/// `registry:5000/name:tag` into name and tag; a digest is part of the name.
fn split_tag(image: &str) -> (&str, &str) {
    if image.contains('@') {
        return (image, "");
    }
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_is_the_latest() {
        assert_eq!(split_tag("a"), ("a", "latest"));
        assert_eq!(split_tag("h:5000/a"), ("h:5000/a", "latest"));
        assert_eq!(split_tag("h:5000/a:1"), ("h:5000/a", "1"));
        assert_eq!(split_tag("a@sha256:00"), ("a@sha256:00", ""));
    }
}
