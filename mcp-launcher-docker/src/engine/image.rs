//! Images: their facts, and pulls with their own deadline.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bollard::models::{CreateImageInfo, ImageInspect};
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;
use mcp_lifecycle_core::launch::{LaunchContext, LaunchProgress};
use tokio::time::timeout;
use tracing::warn;

use super::quiet::quietly;
use super::{ANSWER_LIMIT, Engine, EngineError, Result, SLOW_ANSWER_LIMIT, credentials};
use crate::control::CONTROL;

/// Time limit of a credential helper, which may ask a person to unlock a key ring. At most half of
/// the pull's.
const HELPER_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default)]
pub(crate) struct ImageFacts {
    pub(crate) entrypoint: Option<Vec<String>>,
    pub(crate) cmd: Option<Vec<String>>,
    /// In the engine's terms: `amd64`, `arm64`.
    pub(crate) architecture: Option<String>,
    /// Inherited by its containers, unless they set others.
    pub(crate) labels: HashMap<String, String>,
}

#[derive(Clone)]
pub(crate) struct Pull {
    pub(crate) image: String,
    pub(crate) platform: Option<String>,
    pub(crate) limit: Duration,
    pub(crate) context: LaunchContext,
}

impl Engine {
    pub(crate) async fn has_image(&self, image: &str) -> Result<bool> {
        match self.inspect_image(image).await {
            Ok(_) => Ok(true),
            Err(EngineError::Absent(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn inspect_image(&self, image: &str) -> Result<ImageInspect> {
        let docker = self.docker(ANSWER_LIMIT).await?;
        self.ask(ANSWER_LIMIT, || docker.inspect_image(image)).await
    }

    pub(crate) async fn image_facts(&self, image: &str) -> Result<ImageFacts> {
        let answer = self.inspect_image(image).await?;
        let config = answer.config.unwrap_or_default();
        Ok(ImageFacts {
            entrypoint: config.entrypoint,
            cmd: config.cmd,
            architecture: answer.architecture,
            labels: config.labels.unwrap_or_default(),
        })
    }

    /// Pulls. It continues when the caller is cancelled; another pull of the same image meanwhile
    /// joins it in the engine, which transfers each layer once.
    pub(crate) async fn pull(self: &Arc<Self>, pull: Pull) -> Result<()> {
        let engine = Arc::clone(self);
        let task = CONTROL.spawn(async move {
            let pulled = timeout(pull.limit, engine.pull_once(&pull)).await;
            pulled.unwrap_or_else(|_| {
                let Pull { image, limit, .. } = pull;
                let late = format!("pulling image `{image}` took longer than {limit:?}");
                Err(EngineError::Image(late))
            })
        })?;
        task.await.unwrap_or(Err(EngineError::Cancelled))
    }

    async fn pull_once(&self, pull: &Pull) -> Result<()> {
        let image = &pull.image;
        // Without a tag the daemon would pull all tags.
        let (name, tag) = split_tag(image);
        let mut options = CreateImageOptionsBuilder::default()
            .from_image(name)
            .tag(tag);
        if let Some(platform) = &pull.platform {
            options = options.platform(platform);
        }
        let limit = HELPER_LIMIT.min(pull.limit / 2);
        let (credentials, unread) = match credentials::of(image, limit).await {
            Ok(stored) => (stored, String::new()),
            Err(problem) => {
                warn!(image, problem, "an image is pulled without credentials");
                (None, format!("; the stored credentials: {problem}"))
            }
        };
        let failed = |message: String| {
            EngineError::Image(format!(
                "pulling image `{image}` failed: {message}{unread}; a private image needs `docker login` first"
            ))
        };
        let docker = self.docker(SLOW_ANSWER_LIMIT).await?;
        let docker = docker.with_request_modifier(credentials::readable);
        let mut steps = docker.create_image(Some(options.build()), None, credentials);
        while let Some(step) = quietly(steps.next()).await {
            let step = step.map_err(|error| failed(error.to_string()))?;
            if let Some(error) = step.error_detail {
                return Err(failed(error.message.unwrap_or_default()));
            }
            pull.context.report(&progress(image, step));
        }
        Ok(())
    }
}

fn progress(image: &str, step: CreateImageInfo) -> LaunchProgress {
    let number = |n: i64| u64::try_from(n).ok();
    let detail = step.progress_detail.unwrap_or_default();
    let status = step.status.unwrap_or_default();
    let what = match step.id {
        Some(layer) => format!("{image}: layer {layer}: {status}"),
        None => format!("{image}: {status}"),
    };
    let (current, total) = (detail.current, detail.total);
    LaunchProgress::new(what).bytes(current.and_then(number), total.and_then(number))
}

/// Splits `registry:5000/name:tag` into name and tag; a digest is part of the name.
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
