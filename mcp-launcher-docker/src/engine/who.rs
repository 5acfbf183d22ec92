//! The identity of the daemon: a socket may lead to another one than before, and that one's 404
//! proves nothing about a container of the first.

use std::path::Path;

use mcp_lifecycle_core::lock::Lock;

use bollard::Docker;
use bollard::errors::Error;

use super::{ANSWER_LIMIT, Engine, EngineError, Result};

#[derive(Debug)]
pub(super) struct Greeted {
    pub(super) docker: Docker,
    /// `None` if it does not identify itself.
    id: Option<Id>,
    socket: Lock<Option<SocketFile>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Id {
    value: String,
    /// Older daemons of one machine may share an ID, but never a directory.
    root: String,
}

type SocketFile = (u64, u64);

impl Engine {
    pub(super) async fn greet(&self, docker: Docker) -> Result<Greeted> {
        let socket = self.socket_file();
        let id = self.ask_who(&docker).await?;
        let socket = Lock::new(socket.filter(|_| socket == self.socket_file()));
        Ok(Greeted { docker, id, socket })
    }

    /// Makes sure that the daemon which has just responded is the identified one. No request is
    /// needed if the address leads to the same socket file as then and as `before` the request.
    /// Without a socket file the address may have led back since: then ask this before, as well.
    pub(super) async fn is_same(&self, before: Option<SocketFile>) -> Result<()> {
        let other = || EngineError::OtherEngine {
            endpoint: self.endpoint.clone(),
        };
        let greeted = self.greeted().await?;
        let Some(id) = &greeted.id else {
            return Ok(());
        };
        let known = || greeted.socket.lock();
        if self.socket_file() != before {
            return Err(other());
        }
        if before.is_some() && before == *known() {
            return Ok(());
        }
        let now = self.ask_who(&greeted.docker).await?;
        let is_same = match now {
            Some(now) if now == *id => true,
            Some(now) => now.root == id.root && self.is_podman(&greeted.docker).await?,
            None => false,
        };
        if !is_same || self.socket_file() != before {
            return Err(other());
        }
        *known() = before;
        Ok(())
    }

    /// Returns whether it generates another ID for each response.
    async fn is_podman(&self, docker: &Docker) -> Result<bool> {
        let version = self.ask(ANSWER_LIMIT, || docker.version()).await?;
        let mut components = version.components.iter().flatten();
        Ok(components.any(|component| component.name.starts_with("Podman")))
    }

    async fn ask_who(&self, docker: &Docker) -> Result<Option<Id>> {
        match self.ask(ANSWER_LIMIT, || docker.info()).await {
            Ok(info) => {
                let root = info.docker_root_dir.unwrap_or_default();
                let value = info.id.filter(|id| !id.is_empty());
                Ok(value.map(|value| Id { value, root }))
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
    use std::net::{Shutdown, TcpListener};
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};
    use std::{io, thread};

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

    /// The address leads back between the two questions: who it is now, and who changes with each answer.
    #[test]
    fn one_that_is_asked_twice_and_answers_as_two_is_not_taken_for_podman() {
        let who = || Some((200, r#"{"ID":"one"}"#.to_owned()));
        let one = FakeEngine::start_as(who, |_| Some((200, "{}".to_owned())));
        let at = Arc::new(Switched::to(&one));
        within("it answers", async {
            assert_eq!(at.engine.state("x").await.unwrap(), State::Running);
            let (back, lead_back) = (one.socket(), Arc::clone(&at));
            let who = move || {
                lead_back.lead_to_socket(&back);
                Some((200, r#"{"ID":"other"}"#.to_owned()))
            };
            let none = |_: &str| Some((404, r#"{"message":"none"}"#.to_owned()));
            let other = FakeEngine::start_as(who, none);
            at.lead_to(&other);
            let state = at.engine.state("x").await;
            assert!(
                matches!(state, Err(EngineError::OtherEngine { .. })),
                "{state:?}"
            );
        });
    }

    /// An address that has no file to tell whether it leads elsewhere.
    #[test]
    fn a_404_behind_a_host_name_is_no_proof_when_that_leads_back_before_it_is_read() {
        let who = || Some((200, r#"{"ID":"one"}"#.to_owned()));
        let one = FakeEngine::start_as(who, |_| Some((200, "{}".to_owned())));
        let leads_to = Arc::new(Mutex::new(one.socket()));
        let engine = Engine::new(forwarded(Arc::clone(&leads_to)));
        within("it answers", async {
            assert_eq!(engine.state("x").await.unwrap(), State::Running);
            let (back, lead_back) = (one.socket(), Arc::clone(&leads_to));
            let who = || Some((200, r#"{"ID":"other"}"#.to_owned()));
            let other = FakeEngine::start_as(who, move |_| {
                lead_back.lock().unwrap().clone_from(&back);
                Some((404, r#"{"message":"none"}"#.to_owned()))
            });
            leads_to.lock().unwrap().clone_from(&other.socket());
            assert_eq!(engine.state("x").await.unwrap(), State::Running);
            leads_to.lock().unwrap().clone_from(&other.socket());
            let listed = engine.list(&["x".to_owned()]).await;
            assert!(
                matches!(listed, Err(EngineError::OtherEngine { .. })),
                "{listed:?}"
            );
        });
    }

    /// An address of TCP whose connections lead to the socket that is there at their begin.
    fn forwarded(leads_to: Arc<Mutex<PathBuf>>) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Ends with the test process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let engine = UnixStream::connect(&*leads_to.lock().unwrap()).unwrap();
                let (mut asks, mut answers) = (client.try_clone().unwrap(), client);
                let (mut from, mut to) = (engine.try_clone().unwrap(), engine);
                thread::spawn(move || io::copy(&mut asks, &mut to));
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut answers);
                    let _ = answers.shutdown(Shutdown::Both);
                });
            }
        });
        Endpoint::from_url(&format!("tcp://{address}")).unwrap()
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
