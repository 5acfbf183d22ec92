use bollard::errors::Error;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::CreateContainerOptionsBuilder;

use super::quiet::quietly;
use super::{Engine, EngineError, Meaning, SLOW_ANSWER_LIMIT, whole};

#[derive(Debug)]
pub(crate) struct CreateError {
    pub(crate) error: EngineError,
    /// The request was sent without a response: the container may exist or be created late.
    pub(crate) may_exist: bool,
}

impl Engine {
    /// Creates a container and returns its ID. The daemon does not cancel a creation when its
    /// client is gone, so the caller must see it through.
    pub(crate) async fn create(
        &self,
        name: &str,
        platform: Option<&str>,
        body: ContainerCreateBody,
    ) -> Result<String, CreateError> {
        let mut options = CreateContainerOptionsBuilder::default().name(name);
        if let Some(platform) = platform {
            options = options.platform(platform);
        }
        let docker = match self.docker(SLOW_ANSWER_LIMIT).await {
            Ok(docker) => docker,
            Err(error) => {
                let may_exist = false;
                return Err(CreateError { error, may_exist });
            }
        };
        let created = quietly(docker.create_container(Some(options.build()), body));
        match whole(SLOW_ANSWER_LIMIT, created).await {
            Ok(created) => Ok(created.id),
            Err(error) => Err(CreateError {
                may_exist: match &error {
                    Error::HyperLegacyError { err } => !err.is_connect(),
                    error => Meaning::of(error) == Meaning::Unknown,
                },
                error: self.error(error),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeEngine, within};

    fn may_exist(engine: &Engine, before: impl AsyncFnOnce(&Engine)) -> bool {
        let failure = within("it fails", async {
            before(engine).await;
            let body = ContainerCreateBody::default();
            engine.create("n", None, body).await.unwrap_err()
        });
        failure.may_exist
    }

    #[test]
    fn only_what_was_sent_and_not_answered_may_exist() {
        let silent = FakeEngine::start(|_| None);
        let engine = Engine::new(silent.endpoint());
        assert!(may_exist(&engine, async |_| {}));
        let between = FakeEngine::start(|_| Some((502, "<html>".to_owned())));
        let engine = Engine::new(between.endpoint());
        assert!(may_exist(&engine, async |_| {}));

        let refusing = FakeEngine::start(|_| Some((409, r#"{"message":"no"}"#.to_owned())));
        let engine = Engine::new(refusing.endpoint());
        assert!(!may_exist(&engine, async |_| {}));
        // Greeted, and gone when it is asked.
        let gone = async |engine: &Engine| {
            engine.state("x").await.unwrap_err();
            std::fs::remove_file(refusing.socket()).unwrap();
        };
        assert!(!may_exist(&engine, gone));

        let engine = Engine::new(refusing.endpoint());
        assert!(!may_exist(&engine, async |_| {}), "never there");
    }
}
