//! The identity of the daemon: a socket may lead to another one than before, and that one's 404
//! proves nothing about a container of the first.

use std::path::Path;

use mcp_lifecycle_core::lock::Lock;

use bollard::Docker;
use bollard::errors::Error;

use super::{ANSWER_LIMIT, Engine, EngineError};

#[derive(Debug)]
pub(super) struct Greeted {
    pub(super) docker: Docker,
    /// `None` if it does not identify itself.
    id: Option<String>,
    socket: Lock<Option<SocketFile>>,
}

type SocketFile = (u64, u64);

impl Engine {
    pub(super) async fn greet(&self, docker: Docker) -> Result<Greeted, EngineError> {
        let socket = Lock::new(self.socket_file());
        let id = self.ask_who(&docker).await?;
        Ok(Greeted { docker, id, socket })
    }

    /// Makes sure that the daemon which has just responded is the identified one. No request is
    /// needed if the address leads to the same socket file as then and as `before` the request.
    pub(super) async fn is_same(&self, before: Option<SocketFile>) -> Result<(), EngineError> {
        let other = || EngineError::OtherEngine {
            endpoint: self.endpoint.clone(),
        };
        let greeted = self.greeted().await?;
        let Some(id) = &greeted.id else {
            return Ok(());
        };
        let known = || greeted.socket.lock();
        let socket = self.socket_file();
        if socket != before {
            return Err(other());
        }
        if socket.is_some() && socket == *known() {
            return Ok(());
        }
        let ask = || self.ask_who(&greeted.docker);
        let (now, again) = (ask().await?, ask().await?);
        // Podman generates another ID for each response.
        if now.as_ref() != Some(id) && now == again {
            return Err(other());
        }
        *known() = socket;
        Ok(())
    }

    async fn ask_who(&self, docker: &Docker) -> Result<Option<String>, EngineError> {
        match self.ask(ANSWER_LIMIT, || docker.info()).await {
            Ok(info) => {
                // Older daemons of one machine may share an ID, but never a directory.
                let root = info.docker_root_dir.unwrap_or_default();
                let id = info.id.filter(|id| !id.is_empty());
                Ok(id.map(|id| format!("{id} {root}")))
            }
            // It does not tell: a proxy that filters requests, or an engine with another format.
            Err(
                EngineError::Absent(_)
                | EngineError::Refused {
                    status: 400..500, ..
                }
                | EngineError::Unreachable {
                    source: Error::JsonDataError { .. },
                    ..
                },
            ) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn socket_file(&self) -> Option<SocketFile> {
        file(self.endpoint.local_socket()?)
    }
}

fn file(path: &Path) -> Option<SocketFile> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::endpoint::Endpoint;
    use crate::engine::State;
    use crate::fake::{FakeEngine, within};

    /// An engine at a link, which leads to another one later.
    struct Switched {
        link: tempfile::TempDir,
        engine: Engine,
    }

    impl Switched {
        fn to(fake: &FakeEngine) -> Self {
            let link = tempfile::tempdir().unwrap();
            let engine = Engine::new(Endpoint::Unix(link.path().join("s")));
            let switched = Self { link, engine };
            switched.lead_to(fake);
            switched
        }

        fn lead_to(&self, fake: &FakeEngine) {
            self.lead_to_socket(&fake.socket());
        }

        fn lead_to_socket(&self, socket: &Path) {
            let at = self.link.path().join("s");
            let _ = std::fs::remove_file(&at);
            std::os::unix::fs::symlink(socket, at).unwrap();
        }
    }

    fn other() -> FakeEngine {
        let who = || Some((200, r#"{"ID":"other"}"#.to_owned()));
        FakeEngine::start_as(who, |_| Some((404, r#"{"message":"none"}"#.to_owned())))
    }

    /// Busy, or its connection died, when it was greeted.
    #[test]
    fn an_engine_that_has_not_said_who_it_is_is_asked_until_it_has() {
        let asked = AtomicU32::new(0);
        let who = move || {
            let first = asked.fetch_add(1, Ordering::SeqCst) == 0;
            (!first).then(|| (200, r#"{"ID":"one"}"#.to_owned()))
        };
        let one = FakeEngine::start_as(who, |_| Some((200, "{}".to_owned())));
        let at = Switched::to(&one);
        within("it answers", async {
            let unknown = at.engine.state("x").await;
            assert!(unknown.is_err(), "it is not known who answers: {unknown:?}");
            assert_eq!(at.engine.state("x").await.unwrap(), State::Running);
            let other = other();
            at.lead_to(&other);
            let state = at.engine.state("x").await;
            assert!(
                matches!(state, Err(EngineError::OtherEngine { .. })),
                "{state:?}"
            );
        });
    }

    /// The address leads to another engine while a question is asked, and no longer when it is answered.
    #[test]
    fn a_404_of_another_engine_is_no_proof_when_the_address_leads_back_before_it_is_read() {
        let who = || Some((200, r#"{"ID":"one"}"#.to_owned()));
        let one = FakeEngine::start_as(who, |_| Some((200, "{}".to_owned())));
        let at = Arc::new(Switched::to(&one));
        within("it answers", async {
            assert_eq!(at.engine.state("x").await.unwrap(), State::Running);
            let (back, lead_back) = (one.socket(), Arc::clone(&at));
            let who = || Some((200, r#"{"ID":"other"}"#.to_owned()));
            let other = FakeEngine::start_as(who, move |_| {
                lead_back.lead_to_socket(&back);
                Some((404, r#"{"message":"none"}"#.to_owned()))
            });
            at.lead_to(&other);
            let state = at.engine.state("x").await;
            assert!(
                matches!(state, Err(EngineError::OtherEngine { .. })),
                "{state:?}"
            );
            assert_eq!(at.engine.state("x").await.unwrap(), State::Running);
        });
    }

    /// As a proxy that lets some questions pass.
    #[test]
    fn an_engine_that_refuses_to_say_who_it_is_is_used() {
        let who = || Some((403, r#"{"message":"forbidden"}"#.to_owned()));
        let closed = FakeEngine::start_as(who, |_| Some((404, r#"{"message":"none"}"#.to_owned())));
        let at = Switched::to(&closed);
        assert_eq!(
            within("it answers", at.engine.state("x")).unwrap(),
            State::Absent
        );
    }
}
