//! Processes on a plain peer: no end of file, no SIGTERM, and a forced end that reaches one process
//! group. A helper script compensates where possible.

use std::sync::Arc;

use async_trait::async_trait;
use mcp_lifecycle_core::launch::{
    Containment, Evidence, ExitStatus, Gone, LaunchedServer, ProcessTerminator, Reach, Remnant,
    ServerIdentity, StepError, TerminationSemantics,
};
use serde_json::json;
use tokio::sync::Mutex;

use super::Established;
use super::connection::Connection;
use super::helper::{self, Abilities, COOKIE};
use super::process::Remote;
use super::supervised::{ASK, FORCE, LIST, PROVE, exit_of, step};
use crate::protocol::method;
use crate::protocol::process::StartParams;
use crate::{ExecutorError, Result};

pub(super) fn semantics(helper: Option<Abilities>, watched: bool) -> TerminationSemantics {
    let (mechanism, reach) = match (helper, watched) {
        (Some(_), true) => (
            "plain exec-server: its process group, a helper script that signals and sweeps by \
             cookie, and a watcher that sweeps when the session ends",
            Reach::Marked,
        ),
        (Some(_), false) => (
            "plain exec-server: its process group, and a helper script that signals and sweeps \
             by cookie",
            Reach::Marked,
        ),
        (None, _) => ("plain exec-server: its process group", Reach::Group),
    };
    let on_host_death = if watched { Reach::Marked } else { Reach::Group };
    let mut containment = Containment::new(mechanism, reach).host_death(on_host_death);
    if helper.is_none() {
        containment = containment.fallback("no /bin/sh with grep and /proc over there");
    }
    let semantics = TerminationSemantics::new(containment);
    match helper {
        Some(_) => semantics.polite_signal(),
        None => semantics,
    }
}

pub(super) async fn start(
    established: &Arc<Established>,
    peer: String,
    mut params: StartParams,
) -> Result<LaunchedServer> {
    let connection = &established.connection;
    let id = connection.next_id();
    // Ends with a letter, so that no cookie is a prefix of another.
    let value = format!("{id}z");
    let cookie = format!("{COOKIE}={value}");
    params.env.insert(COOKIE.to_owned(), value);
    let mut undo = Undo {
        connection,
        cookie: established.helper.map(|_| &*cookie),
    };
    let started = connection.start_as(id, params).await;
    // A refused start may be the repetition of a successful one.
    if started.is_ok() {
        undo.cookie = None;
    }
    drop(undo);
    let established = Arc::clone(established);
    Ok(started?.started(|remote| {
        Arc::new(Plain {
            remote,
            established,
            cookie,
            peer,
            swept: Arc::default(),
        })
    }))
}

/// Undoes an abandoned or unanswered start: the connection's termination reaches only one process
/// group, and nothing after the main process's exit. This sweeps the rest.
struct Undo<'a> {
    connection: &'a Connection,
    cookie: Option<&'a str>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if let Some(cookie) = self.cookie {
            helper::kill_now(self.connection, cookie);
        }
    }
}

#[derive(Debug)]
struct Plain {
    remote: Arc<Remote>,
    /// The watcher takes its end for the end of the session, so it lives at least as long as the
    /// last process.
    established: Arc<Established>,
    cookie: String,
    peer: String,
    /// The processes that had to be killed; locked during a sweep.
    swept: Arc<Mutex<Vec<Remnant>>>,
}

impl Plain {
    fn connection(&self) -> &Connection {
        &self.established.connection
    }

    fn has_helper(&self) -> bool {
        self.established.helper.is_some()
    }

    async fn kill(&self) -> Result<()> {
        let params = json!({"processId": self.remote.id});
        self.connection().call(method::TERMINATE, params).await?;
        if !self.has_helper() {
            return Ok(());
        }
        let (connection, cookie) = (self.connection().clone(), self.cookie.clone());
        let swept = Arc::clone(&self.swept);
        detached(async move {
            let mut swept = swept.lock().await;
            swept.extend(helper::kill(&connection, &cookie).await?);
            Ok(())
        })
        .await
    }

    async fn failure(&self) -> ExecutorError {
        let mut status = self.remote.status.subscribe();
        let failed = status.wait_for(|status| status.failed.is_some()).await;
        match failed.ok().and_then(|status| status.failed.clone()) {
            Some(error) => error,
            None => std::future::pending().await,
        }
    }

    async fn emptied(&self) -> Result<Gone> {
        let mut status = self.remote.status.subscribe();
        if !self.has_helper() {
            // The peer's report that the process has closed is the only evidence.
            let _ = status.wait_for(|status| status.closed).await;
            let words = "the process has closed".to_owned();
            return Ok(Gone::proven_by(Evidence::RemoteReported(words)));
        }
        let _ = status.wait_for(|status| status.exit.is_some()).await;
        helper::wait(self.connection(), &self.cookie).await?;
        let swept = self.swept.lock().await.clone();
        Ok(Gone::proven_by(Evidence::NoneMarked).swept(swept))
    }
}

#[async_trait]
impl ProcessTerminator for Plain {
    fn identity(&self) -> ServerIdentity {
        self.remote.identity(&self.peer)
    }

    fn semantics(&self) -> TerminationSemantics {
        self.established.semantics.clone()
    }

    async fn exited(&self) -> ExitStatus {
        exit_of(&self.remote).await
    }

    async fn request_end(&self) -> Result<(), StepError> {
        let (connection, cookie) = (self.connection().clone(), self.cookie.clone());
        let asked = detached(async move { helper::term(&connection, &cookie).await });
        asked.await.map_err(step(ASK))
    }

    async fn force_end(&self) -> Result<(), StepError> {
        self.kill().await.map_err(step(FORCE))
    }

    async fn gone(&self) -> Result<Gone, StepError> {
        tokio::select! {
            gone = self.emptied() => gone.map_err(step(PROVE)),
            error = self.failure() => Err(step(PROVE)(error)),
        }
    }

    async fn survivors(&self) -> Result<Vec<Remnant>, StepError> {
        if self.has_helper() {
            let alive = helper::list(self.connection(), &self.cookie).await;
            return alive.map_err(step(LIST));
        }
        let status = self.remote.status.subscribe();
        let over = status.borrow().exit.is_some();
        let this = Remnant::remote_process(&self.remote.id, "main process");
        Ok(if over { Vec::new() } else { vec![this] })
    }

    fn kill_now(&self) {
        self.connection().terminate_now(&self.remote.id);
        if self.has_helper() {
            helper::kill_now(self.connection(), &self.cookie);
        }
    }
}

async fn detached(work: impl Future<Output = Result<()>> + Send + 'static) -> Result<()> {
    let lost = |_| Err(ExecutorError::lost("the runtime is going away"));
    tokio::spawn(work).await.unwrap_or_else(lost)
}
