//! Which daemon it is that answers: a socket may lead to another one than before,
//! whose 404 says nothing about a container of the first.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tokio::time::timeout;

use super::{Engine, EngineError, HELLO_LIMIT};

/// What is known of the daemon that was greeted.
#[derive(Debug, Default)]
pub(super) struct Who(Mutex<Known>);

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Known {
    id: Option<String>,
    /// The file that its address led to.
    socket: Option<(u64, u64)>,
}

impl Engine {
    /// Notes who answers. A daemon that does not say cannot be told apart.
    pub(super) async fn remember(&self) {
        let known = Known {
            socket: self.socket_file(),
            id: self.ask_who().await.ok().flatten(),
        };
        *self.who.0.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// Makes sure that the daemon that has just answered is the one that was
    /// greeted. The same file of a socket is, without being asked.
    ///
    /// # Errors
    ///
    /// [`EngineError::OtherEngine`].
    pub(super) async fn is_same(&self) -> Result<(), EngineError> {
        let known = self.who.0.lock();
        let known = known.unwrap_or_else(PoisonError::into_inner).clone();
        let Some(id) = &known.id else {
            return Ok(());
        };
        let socket = self.socket_file();
        if socket.is_some() && socket == known.socket {
            return Ok(());
        }
        let (now, again) = (self.ask_who().await?, self.ask_who().await?);
        // Podman makes up another one for each answer.
        if now.as_ref() != Some(id) && now == again {
            return Err(EngineError::OtherEngine {
                endpoint: self.endpoint.clone(),
            });
        }
        let mut known = self.who.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.socket = socket;
        Ok(())
    }

    async fn ask_who(&self) -> Result<Option<String>, EngineError> {
        let docker = self.docker.get().cloned().ok_or(EngineError::Cancelled)?;
        match timeout(HELLO_LIMIT, docker.info()).await {
            Ok(Ok(info)) => {
                // Older daemons of one machine share an id, and never a directory.
                let root = info.docker_root_dir.unwrap_or_default();
                let id = info.id.filter(|id| !id.is_empty());
                Ok(id.map(|id| format!("{id} {root}")))
            }
            Ok(Err(error)) => Err(self.error(error)),
            Err(_) => Err(EngineError::Silent {
                endpoint: self.endpoint.clone(),
            }),
        }
    }

    fn socket_file(&self) -> Option<(u64, u64)> {
        file(self.endpoint.local_socket()?)
    }
}

#[cfg(unix)]
fn file(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn file(_: &Path) -> Option<(u64, u64)> {
    None
}
